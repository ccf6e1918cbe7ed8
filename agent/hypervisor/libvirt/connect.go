package libvirt

import (
	"context"

	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// connect returns the connection, and what guests can have on this host. Callers share it.
func (d *Driver) connect(ctx context.Context) (*rpc.Client, domainxml.Host, error) {
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.client != nil && !d.client.Ended() {
		return d.client, d.host, nil
	}
	client, err := rpc.Dial(ctx, d.o.Socket, d.o.URI, d.o.CallTime)
	if err != nil {
		return nil, d.host, err
	}
	var host domainxml.Host
	if err = d.recognise(ctx, client); err == nil {
		host, err = inspect(ctx, d, client)
	}
	var unsafe []string
	if err == nil {
		unsafe, err = confinement(ctx, client)
	}
	if err != nil {
		client.Close()
		return nil, d.host, err
	}
	d.client, d.host, d.unsafe = client, host, unsafe
	go func() { // events are for Watch, which has its own connection
		for range client.Events() {
		}
	}()
	return client, host, nil
}

// inspect returns what guests can have on this host: KVM if it is configured, or not configured and available.
func inspect(ctx context.Context, d *Driver, c *rpc.Client) (domainxml.Host, error) {
	host := domainxml.Host{Arch: "x86_64", Machine: "q35", CPUModel: d.o.CPUModel, KVM: d.o.VirtType == "kvm",
		VNC: d.o.VNC}
	if d.o.VirtType != "" {
		return host, nil
	}
	if d.inspected { // by an earlier connection
		return d.host, nil
	}
	err := d.tryKVM(ctx, c, host)
	if fault.Is(err, fault.Unavailable) {
		return host, err
	}
	host.KVM, d.inspected = err == nil, true
	if err != nil {
		d.o.Log.Warn("guests run with emulated CPUs: KVM does not work", "error", err)
	}
	return host, nil
}
