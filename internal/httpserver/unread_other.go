//go:build !linux

package httpserver

import "net"

// unread returns 0: the number of bytes is not known here.
func unread(net.Conn) int { return 0 }
