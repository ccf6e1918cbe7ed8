package rpc

import (
	"fmt"
	"time"
)

// Procedure is the number of a call or an event in remote_protocol.x.
type Procedure uint32

// The procedures in use, with libvirt's names.
const (
	connectOpen            Procedure = 1
	connectGetVersion      Procedure = 4
	nodeGetInfo            Procedure = 6
	connectGetCapabilities Procedure = 7
	domainCreateXML        Procedure = 10
	domainGetXMLDesc       Procedure = 14
	domainLookupByUUID     Procedure = 24
	domainResume           Procedure = 28
	domainShutdown         Procedure = 33
	authList               Procedure = 66
	authPolkit             Procedure = 70
	connectNumOfPools      Procedure = 71
	poolCreateXML          Procedure = 76
	poolDestroy            Procedure = 80
	poolRefresh            Procedure = 83
	poolLookupByName       Procedure = 84
	volLookupByPath        Procedure = 97
	volGetXMLDesc          Procedure = 99
	secretLookupByUUID     Procedure = 141
	secretDefineXML        Procedure = 142
	connectGetLibVersion   Procedure = 157
	domainAttachDevice     Procedure = 160
	domainDetachDevice     Procedure = 161
	domainAbortJob         Procedure = 164
	domainCreateWithFlags  Procedure = 196
	domainOpenConsole      Procedure = 201
	volDownload            Procedure = 209
	domainGetState         Procedure = 212
	domainUndefineFlags    Procedure = 231
	domainDestroyFlags     Procedure = 234
	domainSetMetadata      Procedure = 264
	connectListAllDomains  Procedure = 273
	domainMigrateBegin     Procedure = 302
	domainMigratePrepare   Procedure = 303
	domainMigratePerform   Procedure = 305
	domainMigrateFinish    Procedure = 306
	domainMigrateConfirm   Procedure = 307
	registerDomainEvent    Procedure = 316
	domainEventLifecycle   Procedure = 318
	domainEventRemoved     Procedure = 333
	getDomainCapabilities  Procedure = 342
	domainDefineXMLFlags   Procedure = 350
	domainEventNotRemoved  Procedure = 367
)

var procedureNames = map[Procedure]string{
	connectOpen: "ConnectOpen", nodeGetInfo: "NodeGetInfo", connectGetCapabilities: "ConnectGetCapabilities",
	domainGetXMLDesc: "DomainGetXMLDesc", domainLookupByUUID: "DomainLookupByUUID", domainShutdown: "DomainShutdown",
	authList: "AuthList", authPolkit: "AuthPolkit", connectGetLibVersion: "ConnectGetLibVersion",
	domainCreateWithFlags: "DomainCreateWithFlags", domainOpenConsole: "DomainOpenConsole",
	domainGetState: "DomainGetState", domainUndefineFlags: "DomainUndefineFlags",
	domainCreateXML: "DomainCreateXML", domainAttachDevice: "DomainAttachDeviceFlags",
	domainDetachDevice: "DomainDetachDeviceFlags",
	domainSetMetadata:  "DomainSetMetadata", domainDestroyFlags: "DomainDestroyFlags",
	connectListAllDomains: "ConnectListAllDomains",
	registerDomainEvent:   "ConnectDomainEventCallbackRegisterAny", domainEventLifecycle: "DomainEventCallbackLifecycle",
	domainEventRemoved:    "DomainEventCallbackDeviceRemoved",
	domainEventNotRemoved: "DomainEventCallbackDeviceRemovalFailed",
	connectGetVersion:     "ConnectGetVersion", domainResume: "DomainResume", domainAbortJob: "DomainAbortJob",
	secretLookupByUUID: "SecretLookupByUUID", secretDefineXML: "SecretDefineXML",
	domainMigrateBegin: "DomainMigrateBegin3Params", domainMigratePrepare: "DomainMigratePrepare3Params",
	domainMigratePerform: "DomainMigratePerform3Params", domainMigrateFinish: "DomainMigrateFinish3Params",
	domainMigrateConfirm: "DomainMigrateConfirm3Params", connectNumOfPools: "ConnectNumOfStoragePools",
	poolCreateXML: "StoragePoolCreateXML", poolDestroy: "StoragePoolDestroy", poolRefresh: "StoragePoolRefresh",
	poolLookupByName: "StoragePoolLookupByName", volLookupByPath: "StorageVolLookupByPath",
	volGetXMLDesc: "StorageVolGetXMLDesc", volDownload: "StorageVolDownload",
	getDomainCapabilities: "ConnectGetDomainCapabilities", domainDefineXMLFlags: "DomainDefineXMLFlags",
}

// String returns libvirt's name of the procedure.
func (p Procedure) String() string {
	if name := procedureNames[p]; name != "" {
		return name
	}
	return fmt.Sprint("procedure ", uint32(p))
}

// onlyReads reports whether a call changes nothing.
func (p Procedure) onlyReads() bool {
	switch p {
	case domainShutdown, domainCreateXML, domainCreateWithFlags, domainUndefineFlags, domainDestroyFlags,
		domainSetMetadata, secretDefineXML, domainAttachDevice, domainDetachDevice, domainDefineXMLFlags, domainResume,
		domainAbortJob,
		domainMigrateBegin, domainMigratePrepare, domainMigratePerform, domainMigrateFinish, domainMigrateConfirm,
		poolCreateXML, poolDestroy:
		return false
	}
	return true
}

// limit returns how long a call may take.
func (p Procedure) limit() time.Duration {
	switch p {
	case domainMigratePerform:
		return migrationTime
	case domainMigrateBegin, domainMigratePrepare, domainMigrateFinish, domainMigrateConfirm:
		return changeTime
	case domainCreateXML, domainCreateWithFlags, domainDestroyFlags, domainAttachDevice, domainDetachDevice:
		return changeTime
	case domainDefineXMLFlags, connectGetCapabilities, getDomainCapabilities:
		return changeTime // libvirt may probe each QEMU first, for minutes
	}
	return callTime
}
