//go:build linux

package peer

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

var (
	//go:embed kroxylicious/pom.xml
	kroxyliciousPOM string
	//go:embed kroxylicious/Main.java
	kroxyliciousMain string
	//go:embed kroxylicious/log4j2.xml
	kroxyliciousLog string
)

const (
	kroxyliciousVersion = "0.12.0" // the pom names it too
	kroxyliciousConfig  = `virtualClusters:
- name: bench
  targetCluster:
    bootstrapServers: 127.0.0.1:%d
  gateways:
  - name: default
    portIdentifiesNode:
      bootstrapAddress: 127.0.0.1:%d
      advertisedBrokerAddressPattern: 127.0.0.1
      nodeIdRanges:
      - {name: one, start: 0, end: 0}
`
)

// Kroxylicious is the newest release on Maven Central, in the cache. With install it is fetched when it is not there. It listens on all
// addresses, whatever its configuration says, so that it is only run in a network namespace of its own (fenced).
func Kroxylicious(ctx context.Context, install, fenced bool) (*Peer, error) {
	if err := kafka.Need("java", "openjdk-17-jdk-headless"); err != nil {
		return nil, err
	}
	jars, err := fetched("bench-kroxylicious-"+kroxyliciousVersion, install, func(dir string) error { return fetchKroxylicious(ctx, dir) })
	if err != nil {
		return nil, err
	}
	if !fenced && !install {
		return nil, errors.New("it would listen on all addresses of this machine, and no network namespace could be made (that takes root)")
	}
	return &Peer{Name: "kroxylicious", Title: "Kroxylicious", Version: kroxyliciousVersion,
		Note:         "share APIs as version 0, since it closes the connection on others; Java's default options",
		ShareVersion: frames.ShareOldest, Descriptors: 2, Warm: 30 * time.Second,
		command: func(at Place) (Command, error) {
			file, err := at.write("kroxylicious.yaml", fmt.Sprintf(kroxyliciousConfig, at.Upstream, at.Listen))
			return Command{Args: []string{"java", "-cp", jars + ":" + jars + "/*", "Main", file}}, err
		}}, nil
}

func fetchKroxylicious(ctx context.Context, dir string) error {
	if err := errors.Join(kafka.Need("mvn", "maven"), kafka.Need("javac", "openjdk-17-jdk-headless")); err != nil {
		return err
	}
	at := Place{Dir: dir}
	pom, err1 := at.write("pom.xml", kroxyliciousPOM)
	main, err2 := at.write("Main.java", kroxyliciousMain)
	_, err3 := at.write("log4j2.xml", kroxyliciousLog)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if err := kafka.Run(ctx, "mvn", "-q", "-B", "-ntp", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+dir,
		"-DincludeScope=runtime"); err != nil {
		return err
	}
	if err := kafka.Run(ctx, "javac", "-cp", dir+"/*", "-d", dir, main); err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, "Main.java"))
}
