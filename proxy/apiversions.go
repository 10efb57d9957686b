package proxy

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

// keyDraftTxn is where the newest draft of TxnShareAcknowledge has settled (KIP-1289). It carries acknowledgements, so it is not
// offered while nobody told us to read it.
const keyDraftTxn int16 = 95

// shareVersionTxn is the level of the feature share.version from which a broker serves TxnShareAcknowledge.
const shareVersionTxn = 3

// readVersion is the highest version of a key that we read; false for keys that pass unread.
func (s *Server) readVersion(key int16, b *brokerState) (int16, bool) {
	switch {
	case key == s.cfg.TxnKey && b.armed.Load():
		if key == codec.KeyAddRaftVoter { // which goes on in all its versions
			return codec.MaxVersion(key), true
		}
		return 0, true
	case key == codec.KeyShareFetch || key == codec.KeyShareAcknowledge || hasAddresses(key) || key == codec.KeyProduce || key == codec.KeyFetch:
		return codec.MaxVersion(key), true
	}
	return 0, false
}

// offered refuses a request in a version that was clamped away: a broker closes the connection on a version it does not know, too.
func (s *Server) offered(key, version int16, b *brokerState) error {
	if highest, ok := s.readVersion(key, b); ok && (version > highest || version < 0) {
		return fmt.Errorf("%w: %s v%d, at most %d", errVersion, apiName(key), version, highest)
	}
	return nil
}

// hidden says whether a key is left out of ApiVersions answers.
func (s *Server) hidden(key int16, b *brokerState) bool {
	switch {
	case key == codec.KeyAddRaftVoter:
		return false
	case key == s.cfg.TxnKey:
		return !b.armed.Load()
	case key == keyDraftTxn:
		return true
	}
	return s.cfg.HideUnknownAPIs && !codec.Known(key)
}

// versions clamps an ApiVersions answer: the keys that we must read to the versions that we read. Nothing else in it changes.
func (r *responses) versions(frame []byte, body int) ([]byte, error) {
	a := kmsg.NewPtrApiVersionsResponse()
	version := r.x.version
	if code := frame[body:]; len(code) >= 2 && int16(binary.BigEndian.Uint16(code)) == kerr.UnsupportedVersion.Code {
		version = 0 // a broker that does not know the version asked answers in the first one
	}
	if err := readStrict(a, min(version, a.MaxVersion()), frame[body:]); err != nil {
		r.c.srv.metrics.decode.WithLabelValues("ApiVersions", "response").Inc()
		if !r.c.srv.quiet(r.c.info.Upstream, "ApiVersions") {
			r.c.srv.log.Warn().Err(err).Str("upstream", r.c.info.Upstream).Msg("an ApiVersions answer passes as it came: versions are not clamped")
		}
		return nil, nil
	}
	if a.ErrorCode == 0 {
		r.learnFeatures(a, version)
	}
	kept, changed := a.ApiKeys[:0], false
	for _, k := range a.ApiKeys {
		highest, ours := r.c.srv.readVersion(k.ApiKey, r.c.broker)
		if r.c.srv.hidden(k.ApiKey, r.c.broker) || ours && k.MinVersion > highest {
			changed = true
			continue
		}
		if ours && k.MaxVersion > highest {
			k.MaxVersion, changed = highest, true
		}
		kept = append(kept, k)
	}
	if !changed {
		return nil, nil
	}
	a.ApiKeys = kept
	return sized(a.AppendTo(append(make([]byte, 0, len(frame)), frame[:body]...))), nil
}

// learnFeatures arms TxnShareAcknowledge for a broker that serves it, and says where share groups are off.
func (r *responses) learnFeatures(a *kmsg.ApiVersionsResponse, version int16) {
	listed, share := false, false
	for _, k := range a.ApiKeys {
		listed = listed || k.ApiKey == r.c.srv.cfg.TxnKey
		share = share || k.ApiKey == codec.KeyShareAcknowledge
	}
	if version < 3 {
		return // no features in there
	}
	level := int16(0)
	if version >= 4 {
		for _, f := range a.SupportedFeatures {
			if f.Name == "share.version" {
				level = f.MaxVersion
			}
		}
	} else {
		for _, f := range a.FinalizedFeatures {
			if f.Name == "share.version" {
				level = f.MaxVersionLevel
			}
		}
	}
	srv := r.c.srv
	if srv.cfg.TxnArm == ArmAuto {
		r.c.broker.armed.Store(listed && level >= shareVersionTxn)
	}
	finalized := int16(0)
	for _, f := range a.FinalizedFeatures {
		if f.Name == "share.version" {
			finalized = f.MaxVersionLevel
		}
	}
	if (!share || finalized == 0) && len(a.ApiKeys) > 0 && !srv.quiet(r.c.info.Upstream, "share") {
		srv.log.Warn().Str("upstream", r.c.info.Upstream).Int16("share.version", finalized).Bool("share_apis", share).
			Msg("this broker serves no share groups: it needs Kafka 4.1 or later and the feature share.version at 1 or more")
	}
}
