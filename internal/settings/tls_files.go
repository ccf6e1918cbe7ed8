package settings

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/internal/httpserver"
)

// tlsOptions are the rows of TLSSettings.
func (s *Settings) tlsOptions() config.Options {
	l, p, c := &s.TLS.Listener, &s.TLS.Placement, &s.TLS.Compute
	return config.Options{
		config.Text("ssl", "cert_file", &l.Cert.Path, ""),
		config.Text("ssl", "key_file", &l.Key.Path, ""),
		config.Text("ssl", "ca_file", &l.CA.Path, ""),
		config.Text("placement", "cafile", &p.CAFile, ""),
		config.Text("placement", "certfile", &p.CertFile, ""),
		config.Text("placement", "keyfile", &p.KeyFile, ""),
		config.Flag("placement", "insecure", &p.Insecure, false),
		config.Text("berth", "compute_cafile", &c.CAFile, ""),
		config.Text("berth", "compute_certfile", &c.CertFile, ""),
		config.Text("berth", "compute_keyfile", &c.KeyFile, ""),
	}
}

// checkTLS completes the options for certificates. It returns a fault if only some of the options that need each other
// are set.
func (s *Settings) checkTLS(cfg *config.Config, _ *slog.Logger) error {
	if err := s.checkListenerFiles(cfg); err != nil {
		return err
	}
	if e, ok := cfg.Get("placement", "insecure"); ok && s.TLS.Placement.Insecure {
		s.warn(e, "the certificate of Placement is not verified, so another machine can act as Placement; write "+
			"cafile instead")
	}
	return errors.Join(checkClientFiles(cfg, &s.TLS.Placement, "placement", ""),
		checkClientFiles(cfg, &s.TLS.Compute, "berth", "compute_"))
}

// checkListenerFiles checks [ssl].
func (s *Settings) checkListenerFiles(cfg *config.Config) error {
	files := &s.TLS.Listener
	for option, file := range map[string]*httpserver.CertificateFile{"cert_file": &files.Cert, "key_file": &files.Key,
		"ca_file": &files.CA} {
		if e, ok := cfg.Get("ssl", option); ok {
			file.Place = fmt.Sprintf("%s: [ssl] %s = %s", e.Place(), option, file.Path)
		}
	}
	switch {
	case files.Cert.Path != "" && files.Key.Path == "":
		e, _ := cfg.Get("ssl", "cert_file")
		return e.Fault("the certificate needs its key; write key_file, which may be the same file")
	case files.Key.Path != "" && files.Cert.Path == "":
		e, _ := cfg.Get("ssl", "key_file")
		return e.Fault("the key needs its certificate; write cert_file")
	case files.CA.Path != "" && files.Cert.Path == "":
		e, _ := cfg.Get("ssl", "ca_file")
		return e.Fault("only a listener with TLS can verify the certificates of clients; write cert_file " +
			"and key_file")
	}
	return nil
}

// checkClientFiles checks the options of a group with this prefix for calls to one service.
func checkClientFiles(cfg *config.Config, f *rest.TLSFiles, group, prefix string) error {
	full := fmt.Sprintf("[%s] %s", group, prefix)
	f.Names = rest.TLSOptionNames{CA: full + "cafile", Cert: full + "certfile", Key: full + "keyfile"}
	if e, ok := cfg.Get(group, prefix+"keyfile"); ok && f.KeyFile != "" && f.CertFile == "" {
		return e.Fault("the key needs its certificate; write %scertfile", prefix)
	}
	return nil
}
