package rpc

import (
	"context"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// HasSecret reports whether libvirt has a secret with a UUID.
func HasSecret(ctx context.Context, c *Client, id uuid.UUID) (bool, error) {
	_, err := call(ctx, c, reads, func(l *libvirt.Libvirt) (libvirt.Secret, error) {
		return l.SecretLookupByUUID(libvirt.UUID(id))
	})
	if hasCode(err, ErrNoSecret) {
		return false, nil
	}
	return err == nil, err
}

// DefineSecret defines a secret, which libvirt keeps until it is undefined. It has no value.
func DefineSecret(ctx context.Context, c *Client, xml string) error {
	return do(ctx, c, alters, func(l *libvirt.Libvirt) error {
		_, err := l.SecretDefineXML(xml, 0)
		return err
	})
}
