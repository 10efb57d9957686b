package kafka

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePorts returns the first of n consecutive ports that nothing listens on at any of the hosts. They lie below the range that
// the kernel takes for outgoing connections, so that a broker that is killed finds its own port free again.
func FreePorts(n int, hosts ...string) (int, error) {
	for range 200 {
		base := 10000 + rand.IntN(20000)
		if free(base, n, hosts) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row", n)
}

func free(base, n int, hosts []string) bool {
	for port := base; port < base+n; port++ {
		for _, host := range hosts {
			l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
			if err != nil {
				return false
			}
			l.Close()
		}
	}
	return true
}
