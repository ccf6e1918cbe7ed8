package state

// HardwareBridge is the vif_type of a port whose VF is configured through its PF: the NIC's own bridge connects it.
const HardwareBridge = "hw_veb"
