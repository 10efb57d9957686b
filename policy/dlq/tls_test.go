package dlq

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// identity is a certificate that is its own authority, with its key.
type identity struct {
	serial    int64
	pair      tls.Certificate
	cert, key []byte // PEM
}

func newIdentity(t *testing.T, serial int64) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{serial, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// TestCertificatesChange has the files of a cluster change while a client is there, on both sides, and then be useless.
func TestCertificatesChange(t *testing.T) {
	dir := t.TempDir()
	files := TLS{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	write := func(broker, own identity) {
		t.Helper()
		for path, text := range map[string][]byte{files.CA: broker.cert, files.Cert: own.cert, files.Key: own.key} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	brokers, own := []identity{newIdentity(t, 1), newIdentity(t, 2)}, []identity{newIdentity(t, 3), newIdentity(t, 4)}
	write(brokers[0], own[0])
	first, err := files.config()
	if err != nil {
		t.Fatal(err)
	}
	dial := files.dialer(first)
	connect := func(broker, want identity) {
		t.Helper()
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{broker.pair}, ClientAuth: tls.RequireAnyClientCert})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		serials := make(chan int64, 1)
		go func() {
			serial := int64(-1)
			if c, err := l.Accept(); err == nil {
				defer c.Close()
				if c.(*tls.Conn).Handshake() == nil {
					serial = c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
				}
			}
			serials <- serial
		}()
		c, err := dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := <-serials; got != want.serial {
			t.Errorf("the certificate is %d, not %d", got, want.serial)
		}
	}
	connect(brokers[0], own[0])
	write(brokers[1], own[1])
	connect(brokers[1], own[1])
	if err := os.WriteFile(files.Key, []byte("half of a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	connect(brokers[1], own[1])
}
