package rpc

import (
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"github.com/openberth/berth/fault"
)

// The errors that the driver distinguishes.
const (
	ErrNoSupport        = libvirt.ErrNoSupport        // the daemon has no driver for this
	ErrNoPool           = libvirt.ErrNoStoragePool    // there is no storage pool with this name
	ErrNoVolume         = libvirt.ErrNoStorageVol     // no storage pool has a volume with this path
	ErrNoDomain         = libvirt.ErrNoDomain         // there is no domain with this name or UUID
	ErrOperationInvalid = libvirt.ErrOperationInvalid // not in this state of the domain
	ErrNoSecret         = libvirt.ErrNoSecret         // there is no secret with this UUID
	ErrNoMetadata       = libvirt.ErrNoDomainMetadata // the domain has no metadata of this namespace
	ErrOperationTimeout = libvirt.ErrOperationTimeout
	ErrDeviceMissing    = libvirt.ErrDeviceMissing // the domain does not have the device
)

// Error is an error that libvirt returned.
type Error struct {
	Code    libvirt.ErrorNumber
	Message string
}

// Error returns the message with the number.
func (e *Error) Error() string { return fmt.Sprintf("libvirt: %s (error %d)", e.Message, e.Code) }

// answered returns an error that go-libvirt has decoded as an Error, and other errors unchanged.
func answered(err error) error {
	if known, is := errors.AsType[libvirt.Error](err); is {
		return &Error{Code: libvirt.ErrorNumber(known.Code), Message: known.Message}
	}
	if errors.Is(err, libvirt.ErrUnsupported) { // of a daemon that is older than the procedure
		return &Error{Code: libvirt.ErrRPC, Message: err.Error()}
	}
	return err
}

// hasCode reports whether an error is libvirt's with a code.
func hasCode(err error, code libvirt.ErrorNumber) bool {
	known, is := errors.AsType[*Error](err)
	return is && known.Code == code
}

// notFound gives the error that there is no such domain its kind.
func notFound(err error) error {
	if hasCode(err, ErrNoDomain) {
		return fault.Wrap(fault.NotFound, err)
	}
	return err
}
