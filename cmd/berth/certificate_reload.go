package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/openberth/berth/internal/httpserver"
)

// expiryCheckInterval is how often a running service checks when its certificate expires.
const expiryCheckInterval = 24 * time.Hour

// openCertificate opens a certificate for the lifetime of the process. It is reloaded on SIGHUP, and checked every day.
func openCertificate(files httpserver.CertificateFiles, log *slog.Logger) (*httpserver.Certificate, error) {
	cert, err := httpserver.OpenCertificate(files, log)
	if err != nil {
		return nil, err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				cert.Reload()
			case <-time.After(expiryCheckInterval):
				cert.WarnOfExpiry()
			}
		}
	}()
	return cert, nil
}
