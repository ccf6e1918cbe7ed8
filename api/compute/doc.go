// Package compute is the contract of compute: the part of the OpenStack Compute API v2.1 that Berth implements, its
// wire types, its microversions and a client; and Berth's own extension "why".
//
//	GET POST         /v2.1/servers                   list (id, name), create
//	GET              /v2.1/servers/detail            list with everything
//	GET PUT DELETE   /v2.1/servers/{id}              PUT changes name and description
//	GET POST PUT     /v2.1/servers/{id}/metadata     POST adds, PUT replaces
//	GET PUT DELETE   /v2.1/servers/{id}/metadata/{key}
//	GET PUT DELETE   /v2.1/servers/{id}/tags
//	GET PUT DELETE   /v2.1/servers/{id}/tags/{tag}
//	GET              /v2.1/servers/{id}/os-instance-actions
//	GET              /v2.1/servers/{id}/os-instance-actions/{request}
//	POST             /v2.1/servers/{id}/action       os-start, os-stop, reboot, rebuild, resize, confirmResize,
//	                                                 revertResize, migrate, os-migrateLive, evacuate, shelve,
//	                                                 shelveOffload, unshelve, forceDelete, os-resetState
//	GET              /v2.1/servers/{id}/migrations   moves in progress (admins)
//	GET              /v2.1/os-migrations             all moves (admins)
//	GET              /v2.1/os-services               the agents of hosts (admins)
//	PUT              /v2.1/os-services/…             status, disabled_reason, forced_down (admins)
//	GET POST         /v2.1/flavors                   list (id, name), create
//	GET              /v2.1/flavors/detail
//	GET PUT DELETE   /v2.1/flavors/{id}              PUT changes the description
//	GET POST         /v2.1/flavors/{id}/os-extra_specs
//	GET PUT DELETE   /v2.1/flavors/{id}/os-extra_specs/{key}
//	GET POST         /v2.1/os-keypairs               of the user
//	GET DELETE       /v2.1/os-keypairs/{name}
//	GET              /v2.1/os-hypervisors, …/detail, …/statistics, …/{id} (admins)
//	GET              /v2.1/os-hosts, …/{host} (admins)
//	GET              /v2.1/os-availability-zone      …/detail for admins
//	GET, PUT, DELETE /v2.1/os-quota-sets/{project}; GET …/defaults, …/detail
//	GET, PUT         /v2.1/os-quota-class-sets/{class} (admins)
//	GET              /v2.1/limits
//	GET              /v2.1/os-simple-tenant-usage, …/{project}
//	GET              /berth/v1/servers/{id}/why      Why
//	PUT DELETE       /berth/v1/hosts/{host}/down     declares the host permanently dead, or reverses that
//
// Each path under /v2.1 also answers under /v2.1/{project_id}. A client chooses a microversion with
// `OpenStack-API-Version: compute 2.104` (or X-OpenStack-Nova-API-Version: 2.104); without one it gets 2.1.
// Berth implements 2.1 to 2.104. These versions change something on the paths above:
//
//	2.2    key pairs have a type; creating one answers 201, deleting one 204
//	2.3    servers show OS-EXT-SRV-ATTR:hostname, reservation_id, launch_index, … (admins)
//	2.6    POST /servers/{id}/remote-consoles opens consoles, and the actions os-get…Console are gone
//	2.8    the protocol mks, which Berth does not have
//	2.9    servers show locked
//	2.10   key pairs of another user: user_id (admins)
//	2.11   services show forced_down, which PUT /os-services/force-down changes
//	2.13   server groups show their project_id and user_id
//	2.14   evacuate has no onSharedStorage, and answers without adminPass
//	2.15   server groups may have the policies soft-affinity and soft-anti-affinity
//	2.16   servers show host_status (admins)
//	2.17   servers have the action trigger_crash_dump
//	2.19   servers have a description
//	2.21   GET /servers/{id}/os-instance-actions also of deleted servers
//	2.22   a live migration can be forced to complete (force_complete)
//	2.23   GET /servers/{id}/migrations; migrations show their migration_type
//	2.24   a running live migration can be aborted
//	2.25   os-migrateLive has no disk_over_commit
//	2.26   servers show tags, which /servers/{id}/tags changes; lists filter by them
//	2.28   hypervisors show cpu_info as an object, not as a text
//	2.29   evacuate may name a host, which is checked like any other
//	2.30   os-migrateLive may name a host, which is checked like any other
//	2.31   GET /os-console-auth-tokens/{token} shows tokens of all types of consoles
//	2.33   lists of hypervisors have pages
//	2.35   lists of key pairs have pages
//	2.36   quotas and limits have no floating IPs, fixed IPs and security groups
//	2.37   creating a server requires networks: none or auto
//	2.38   an unknown status in the filter of a list is an error, not an empty list
//	2.39   limits have no maxImageMeta
//	2.40   usage has pages
//	2.41   aggregates show their uuid
//	2.43   /os-hosts is gone
//	2.45   createImage and createBackup answer with the image_id in a body, without Location
//	2.47   servers show their flavor's values as they were at creation, not its id
//	2.50   quota classes have server groups, and no floating IPs, fixed IPs and security groups
//	2.51   os-instance-actions show the events of an action to all, not only to admins
//	2.52   creating a server may set tags
//	2.53   services and hypervisors have UUIDs; PUT /os-services/{id} changes forced_down
//	2.54   a rebuild may change key_name
//	2.55   flavors have a description, which PUT changes
//	2.56   migrate may name a host
//	2.57   no personality in requests, quotas and limits; a rebuild may change user_data
//	2.58   os-instance-actions have pages, updated_at and the filter changes-since
//	2.59   migrations show their uuid
//	2.61   flavors show their extra_specs
//	2.63   servers show trusted_image_certificates, which is null
//	2.65   a live migration that does not run yet can be aborted
//	2.68   evacuate and os-migrateLive have no force
//	2.70   ports of servers show their tag
//	2.71   a server shows server_groups, except in lists
//	2.72   servers with ports that have a resource request are created and moved
//	2.73   servers show locked_reason
//	2.75   PUT and rebuild answer as GET does; an empty swap is 0; hypervisors always show servers
//	2.80   migrations show user_id and project_id
//	2.86   values of known extra specs are checked when they are set
//	2.88   hypervisors show uptime and no amounts; no …/uptime and no …/statistics
//	2.90   servers show OS-EXT-SRV-ATTR:hostname to all; creation, PUT and rebuild have hostname
//	2.92   key pairs are not generated; their names may have @ and .
//	2.94   hostname may have several labels
//	2.95   evacuate does not start the server
//	2.96   servers show pinned_availability_zone
//	2.98   servers show the properties of their image
//	2.100  servers show scheduler_hints
//	2.102  GET /flavors filters by name; flavors have no rxtx_factor and OS-FLV-DISABLED:disabled
//	2.104  PUT may change pinned_availability_zone
//
// Effects has the same list as data, and a test compares the two. Other versions change paths that Berth does not
// implement.
package compute
