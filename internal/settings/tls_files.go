package settings

import (
	"fmt"
	"log/slog"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/internal/httpserver"
)

// knownTLS lists the options of TLSSettings.
func knownTLS() []config.Name {
	return []config.Name{
		{Group: "ssl", Option: "cert_file"}, {Group: "ssl", Option: "key_file"}, {Group: "ssl", Option: "ca_file"},
		{Group: "placement", Option: "cafile"}, {Group: "placement", Option: "certfile"},
		{Group: "placement", Option: "keyfile"}, {Group: "placement", Option: "insecure"},
		{Group: "berth", Option: "compute_cafile"}, {Group: "berth", Option: "compute_certfile"},
		{Group: "berth", Option: "compute_keyfile"},
	}
}

func (s *Settings) readTLS(cfg *config.Config, _ *slog.Logger) (err error) {
	if err := s.readListenerFiles(cfg); err != nil {
		return err
	}
	if s.TLS.Placement, err = s.readClientFiles(cfg, "placement", ""); err != nil {
		return err
	}
	if s.TLS.Placement.Insecure, err = cfg.Bool("placement", "insecure", false); err != nil {
		return err
	}
	if e, ok := cfg.Get("placement", "insecure"); ok && s.TLS.Placement.Insecure {
		s.warn(e, "the certificate of Placement is not verified, so another machine can act as Placement; write "+
			"cafile instead")
	}
	s.TLS.Compute, err = s.readClientFiles(cfg, "berth", "compute_")
	return err
}

// readListenerFiles reads [ssl]. It returns a fault if only some of the options that need each other are set.
func (s *Settings) readListenerFiles(cfg *config.Config) (err error) {
	files := &s.TLS.Listener
	for _, of := range []struct {
		option string
		to     *httpserver.CertificateFile
	}{{"cert_file", &files.Cert}, {"key_file", &files.Key}, {"ca_file", &files.CA}} {
		if of.to.Path, err = cfg.String("ssl", of.option, "", nil); err != nil {
			return err
		}
		if e, ok := cfg.Get("ssl", of.option); ok {
			of.to.Place = fmt.Sprintf("%s: [ssl] %s = %s", e.Place(), of.option, of.to.Path)
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

// readClientFiles reads the options of a group with this prefix for calls to one service.
func (s *Settings) readClientFiles(cfg *config.Config, group, prefix string) (f rest.TLSFiles, err error) {
	full := fmt.Sprintf("[%s] %s", group, prefix)
	f.Names = rest.TLSOptionNames{CA: full + "cafile", Cert: full + "certfile", Key: full + "keyfile"}
	for option, to := range map[string]*string{"cafile": &f.CAFile, "certfile": &f.CertFile, "keyfile": &f.KeyFile} {
		if *to, err = cfg.String(group, prefix+option, "", nil); err != nil {
			return f, err
		}
	}
	if e, ok := cfg.Get(group, prefix+"keyfile"); ok && f.KeyFile != "" && f.CertFile == "" {
		return f, e.Fault("the key needs its certificate; write %scertfile", prefix)
	}
	return f, nil
}
