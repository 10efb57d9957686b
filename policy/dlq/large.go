package dlq

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// tooLarge leaves the payload out, where the configuration wants that and it is not done yet; else it returns why the letter cannot be written.
func (p *Policy) tooLarge(it *item, err error) error {
	if p.config.TooLargeFails || it.bare {
		it.final = true
		return fmt.Errorf("too large: %w", err)
	}
	it.bare = true
	it.record.Strip(tooLargeReason)
	return nil
}

// within leaves the payload of a letter out, as tooLarge does, where it has more bytes than max_record.
func (p *Policy) within(it *item) error {
	if int64(it.record.Size()) <= p.config.MaxRecord {
		return nil
	}
	return p.tooLarge(it, errLarge)
}

const tooLargeReason = "the record is too large for the dead-letter topic"

func tooLarge(err error) bool { return errors.Is(err, kerr.MessageTooLarge) }
