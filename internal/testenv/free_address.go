package testenv

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// nextPort is the next port that FreeAddress tries.
var nextPort atomic.Int64

// FreeAddress returns an address of loopback with a port that nothing listens on. It is below those that the kernel
// gives to connections and listeners without a port: a service that starts later, or again, finds it free.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+(int64(os.Getpid())*100+nextPort.Add(1))%10000))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port from 20000 to 29999 is free")
	return ""
}
