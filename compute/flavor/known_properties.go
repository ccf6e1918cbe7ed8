package flavor

// Property is an extra spec or an image property that Nova knows, and what Berth does with it.
type Property struct {
	Name string // {n} is a number; {class}, {trait} and {suffix} are names of Placement; * is any text
	// Values are those that are accepted: Works, Any, None, or a list such as "false" or "disabled, optional". One that is
	// listed is done, or is what Berth does anyway.
	Values string
	Effect string // what Berth does, as a sentence without its end
}

// The words of Property.Values.
const (
	Works = "works"         // Berth implements it, and checks its values
	Any   = "any"           // each value is met
	None  = "refused"       // no value is
	CPUs  = "the VCPUs"     // the number of CPUs of the flavor
	Least = "the VCPUs, …"  // that number or more
	More  = "1, …"          // each number from 1 on
	Q35   = "q35, pc-q35-…" // and each version of it, such as pc-q35-7.2
)

// The effects of several properties.
const (
	noTopology   = "each CPU of a guest is a socket with one core and one thread"
	noEncryption = "memory and disks of guests are not encrypted"
	noRealtime   = "guests have no realtime CPUs"
	noLimits     = "guests have no such limits or shares"
	noTPM        = "guests have no TPM, because its state would not move with a stopped server"
	noAddresses  = "QEMU chooses the bits of addresses"
	noOtherHyper = "this is for another hypervisor"
	noSuchBus    = "guests have no such drive"
	secureBoot   = "secure boot of UEFI; with optional where the host has firmware for it"
	notVerified  = "signatures of images are not verified"
	noMapping    = "guests have one disk, /dev/vda"
	noInput      = "guests have the keyboard and the mouse of the machine type, and no USB, sound or IOMMU device"
	noMetadata   = "this describes the image only"
)

// Specs lists the extra specs that Nova knows, by name within each group.
var Specs = []Property{
	{"resources{suffix}:{class}", Works, "an amount in the request to Placement"},
	{"trait{suffix}:{trait}", Works, "a trait in the request to Placement"},
	{"group_policy", Works, "the policy of the request to Placement"},
	{"pci_passthrough:alias", Works, "PCI devices; an empty value is refused"},
	{"pci:match:{family}", Works, "aliases whose devices all have one value of the family in common"},
	{"hw:cpu_policy", Works, "dedicated CPUs"},
	{"hw:cpu_thread_policy", Works, "threads of dedicated CPUs"},
	{"hw:cpu_dedicated_mask", Works, "the dedicated CPUs"},
	{"hw:emulator_threads_policy", Works, "a CPU for the emulator"},
	{"hw:mem_page_size", Works, "the size of pages"},
	{"hw:numa_nodes", Works, "the number of NUMA cells"},
	{"hw:numa_cpus.{n}", Works, "the CPUs of a NUMA cell"},
	{"hw:numa_mem.{n}", Works, "the memory of a NUMA cell"},
	{"hw:pci_numa_affinity_policy", Works, "how near a device must be"},
	{"hw:boot_menu", "false", "the firmware shows no menu"},
	{"hw:cpu_cores", "1", noTopology},
	{"hw:cpu_sockets", CPUs, noTopology},
	{"hw:cpu_threads", "1", noTopology},
	{"hw:max_cpu_cores", More, noTopology},
	{"hw:max_cpu_sockets", Least, noTopology},
	{"hw:max_cpu_threads", More, noTopology},
	{"hw:cpu_realtime", "false", noRealtime},
	{"hw:cpu_realtime_mask", None, noRealtime},
	{"hw:ephemeral_encryption", "false", noEncryption},
	{"hw:ephemeral_encryption_format", None, noEncryption},
	{"hw:hide_hypervisor_id", "false", "guests see their hypervisor"},
	{"hide_hypervisor_id", "false", "guests see their hypervisor"},
	{"hw:input_bus", None, noInput},
	{"hw:locked_memory", "false", "memory of guests is not locked, except huge pages"},
	{"hw:maxphysaddr_bits", None, noAddresses},
	{"hw:maxphysaddr_mode", None, noAddresses},
	{"hw:mem_encryption", "false", noEncryption},
	{"hw:mem_encryption_model", None, noEncryption},
	{"hw:pmem", None, "guests have no persistent memory"},
	{"hw:pmu", None, "QEMU chooses whether guests have a performance monitoring unit"},
	{"hw:redirected_usb_ports", "0", noInput},
	{"hw:serial_port_count", "1", "guests have one serial port"},
	{"hw:sound_model", None, noInput},
	{"hw:tpm_model", None, noTPM},
	{"hw:tpm_secret_security", None, noTPM},
	{"hw:tpm_version", None, noTPM},
	{"hw:usb_model", None, noInput},
	{"hw:vif_multiqueue_enabled", "false", "network interfaces have one queue"},
	{"hw:viommu_model", None, noInput},
	{"hw:virtio_packed_ring", "false", "virtio devices have split rings"},
	{"hw:watchdog_action", "disabled", "guests have no watchdog"},
	{"hw_rng:allowed", "true", "guests have a source of random numbers without a limit"},
	{"hw_rng:rate_bytes", None, "guests have a source of random numbers without a limit"},
	{"hw_rng:rate_period", None, "guests have a source of random numbers without a limit"},
	{"hw_video:ram_max_mb", Any, "it limits hw_video_ram, which only 0 is accepted for"},
	{"os:secure_boot", "required, disabled, optional", secureBoot},
	{"os:monitors", None, noOtherHyper},
	{"os:resolution", None, noOtherHyper},
	{"os:vram", None, noOtherHyper},
	{"accel:device_profile", None, "Berth has no accelerators of Cyborg"},
	{"aggregate_instance_extra_specs:*", Any, "metadata that an aggregate of the host must have"},
	{"capabilities:*", None, "hosts are not chosen by such capabilities; write traits"},
	{"quota:*", None, noLimits},
	{"powervm:*", None, noOtherHyper},
	{"vmware:*", None, noOtherHyper},
}

// ImageProperties lists the image properties that Nova knows.
var ImageProperties = []Property{
	{"trait:{trait}", Works, "a trait in the request to Placement"},
	{"hw_cpu_policy", Works, "dedicated CPUs"},
	{"hw_cpu_thread_policy", Works, "threads of dedicated CPUs"},
	{"hw_emulator_threads_policy", Works, "a CPU for the emulator"},
	{"hw_mem_page_size", Works, "the size of pages"},
	{"hw_numa_nodes", Works, "the number of NUMA cells"},
	{"hw_numa_cpus.{n}", Works, "the CPUs of a NUMA cell"},
	{"hw_numa_mem.{n}", Works, "the memory of a NUMA cell"},
	{"hw_pci_numa_affinity_policy", Works, "how near a device must be"},
	{"hw_architecture", "x86_64", "guests have the architecture x86_64"},
	{"hw_auto_disk_config", "false", "disks are not changed when a server is built"},
	{"hw_boot_menu", "false", "the firmware shows no menu"},
	{"hw_cdrom_bus", Any, noSuchBus},
	{"hw_cpu_cores", "1", noTopology},
	{"hw_cpu_max_cores", More, noTopology},
	{"hw_cpu_max_sockets", Least, noTopology},
	{"hw_cpu_max_threads", More, noTopology},
	{"hw_cpu_realtime_mask", None, noRealtime},
	{"hw_cpu_sockets", CPUs, noTopology},
	{"hw_cpu_threads", "1", noTopology},
	{"hw_device_id", None, noOtherHyper},
	{"hw_disk_bus", "virtio, scsi, sata", "the bus of the disk and of the config drive"},
	{"hw_disk_type", "sparse, thin", "disks are sparse"},
	{"hw_emulation_architecture", None, "guests have the architecture of their host"},
	{"hw_ephemeral_encryption", "false", noEncryption},
	{"hw_ephemeral_encryption_format", None, noEncryption},
	{"hw_ephemeral_encryption_secret_uuid", None, noEncryption},
	{"hw_firmware_stateless", "false", "guests with UEFI keep its variables"},
	{"hw_firmware_type", "bios, uefi", "the firmware; UEFI keeps its variables beside the disk"},
	{"hw_floppy_bus", Any, noSuchBus},
	{"hw_input_bus", None, noInput},
	{"hw_ipxe_boot", "false", "guests boot their disk"},
	{"hw_locked_memory", "false", "memory of guests is not locked, except huge pages"},
	{"hw_machine_type", Q35, "the machine type; QEMU refuses a version that it does not have"},
	{"hw_maxphysaddr_bits", None, noAddresses},
	{"hw_maxphysaddr_mode", None, noAddresses},
	{"hw_mem_encryption", "false", noEncryption},
	{"hw_mem_encryption_model", None, noEncryption},
	{"hw_pmu", None, "QEMU chooses whether guests have a performance monitoring unit"},
	{"hw_pointer_model", "ps2mouse", noInput},
	{"hw_qemu_guest_agent", "true, false", "a channel for the guest agent of QEMU"},
	{"hw_redirected_usb_ports", "0", noInput},
	{"hw_rescue_bus", Any, "servers are not rescued"},
	{"hw_rescue_device", Any, "servers are not rescued"},
	{"hw_rng_model", "virtio", "guests have a virtio source of random numbers"},
	{"hw_scsi_model", "virtio-scsi", "SCSI controllers are virtio devices"},
	{"hw_serial_port_count", "1", "guests have one serial port"},
	{"hw_sound_model", None, noInput},
	{"hw_time_hpet", "true", "guests have the HPET of the machine type"},
	{"hw_tpm_model", None, noTPM},
	{"hw_tpm_secret_security", None, noTPM},
	{"hw_tpm_version", None, noTPM},
	{"hw_usb_model", None, noInput},
	{"hw_video_model", "none, vga, virtio, bochs", "a video device of the display; none: no display"},
	{"hw_video_ram", "0", "QEMU chooses the memory of the video device"},
	{"hw_vif_model", "virtio, e1000, e1000e, rtl8139", "the model of network interfaces without a device of the host"},
	{"hw_vif_multiqueue_enabled", "false", "network interfaces have one queue"},
	{"hw_viommu_model", None, noInput},
	{"hw_virtio_packed_ring", "false", "virtio devices have split rings"},
	{"hw_vm_mode", "hvm", "guests are fully virtualised"},
	{"hw_watchdog_action", "disabled", "guests have no watchdog"},
	{"img_bdm_v2", Any, "it is the form of img_block_device_mapping"},
	{"img_bittorrent", "false", "images are read by HTTP"},
	{"img_block_device_mapping", "[]", noMapping},
	{"img_cache_in_nova", "true", "hosts keep copies of images"},
	{"img_compression_level", None, noOtherHyper},
	{"img_config_drive", "mandatory, optional", "guests have a config drive"},
	{"img_hide_hypervisor_id", "false", "guests see their hypervisor"},
	{"img_hv_requested_version", None, "hosts are not chosen by their hypervisor's version"},
	{"img_hv_type", "kvm, qemu", "guests run with KVM or QEMU"},
	{"img_linked_clone", None, noOtherHyper},
	{"img_mappings", "[]", noMapping},
	{"img_owner_id", Any, noMetadata},
	{"img_root_device_name", "/dev/vda", noMapping},
	{"img_signature", None, notVerified},
	{"img_signature_certificate_uuid", None, notVerified},
	{"img_signature_hash_method", None, notVerified},
	{"img_signature_key_type", None, notVerified},
	{"img_use_agent", "false", "guests are not configured by an agent"},
	{"img_version", Any, noMetadata},
	{"os_admin_user", Any, noMetadata},
	{"os_command_line", None, "guests boot their disk, not a kernel of the host"},
	{"os_distro", Any, noMetadata},
	{quiesceProperty, "true, false", "snapshots of a running guest need its agent, which freezes the file systems"},
	{"os_secure_boot", "required, disabled, optional", secureBoot},
	{"os_skip_agent_inject_files_at_boot", Any, "no agent of a hypervisor changes the guest"},
	{"os_skip_agent_inject_ssh", Any, "no agent of a hypervisor changes the guest"},
	{"os_type", "linux", "the clock of guests has UTC"},
	{"os_version", Any, noMetadata},
	// Names of older releases of Nova.
	{"architecture", "x86_64", "as hw_architecture"},
	{"hypervisor_type", "kvm, qemu", "as img_hv_type"},
	{"hypervisor_version_requires", None, "as img_hv_requested_version"},
	{"vm_mode", "hvm", "as hw_vm_mode"},
}
