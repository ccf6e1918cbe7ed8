package vfconfig

import "fmt"

// VF is a virtual function as the kernel configures it.
type VF struct {
	Address   string // of the VF
	Interface string // of its PF
	Index     int    // number of the VF at the PF
	Speed     int    // of the PF's link in megabits per second; 0: unknown, or the link is down
}

// Unsupported returns the condition of a VF whose NIC refuses a setting that is not necessary. why is the refusal.
func Unsupported(vf VF, o Operation, why string) string {
	advice := "use a NIC whose driver supports it, or a port without it"
	if o.Attribute == Rates && vf.Speed == 0 {
		advice = "the link is down, and drivers need its speed: set the interface up"
	}
	return fmt.Sprintf("VF %s of %s: %s; %s", vf.Address, vf.Interface, why, advice)
}

// NoIngressLimit returns the condition of a port with a limit for what its guest receives; empty without one. The
// kernel limits only what a VF sends.
func NoIngressLimit(vf VF, p Port) string {
	if p.MaxIngress == 0 {
		return ""
	}
	return fmt.Sprintf("VF %s of %s: the limit of %d kbit/s for what port %s receives is not enforced: a VF limits only "+
		"what it sends; remove the ingress rule from the policy", vf.Address, vf.Interface, p.MaxIngress, p.ID)
}

// ExceededSpeed returns the condition of a PF whose VFs have more guaranteed in sum than its link carries; empty if
// they do not, or the speed is unknown.
func ExceededSpeed(pf string, speed, guaranteed int) string {
	if speed == 0 || guaranteed <= speed {
		return ""
	}
	return fmt.Sprintf("interface %s: its VFs have %d Mbit/s guaranteed and its link has %d: the guarantees cannot be "+
		"kept; correct resource_provider_bandwidths, or move servers away", pf, guaranteed, speed)
}
