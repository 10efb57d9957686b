//go:build !race

package gateway

// race builds the proxy with the race detector when the tests have it.
const race = false
