package cli

// Commands are the client commands. Kong fills the fields of NewCommands; the tags are the help texts.
type Commands struct {
	Launch        LaunchCmd        `cmd:"" group:"Servers, flavors and images:" help:"Create a server with the usual flavor, network and key pair, and wait until it runs."`
	Server        ServerCmd        `cmd:"" group:"Servers, flavors and images:" help:"Create, show, change, move and delete servers; explain why a server is on its host, or on none."`
	Why           ServerWhyCmd     `cmd:"" group:"Servers, flavors and images:" help:"Explain why a server is on its host, or on none: the same as 'server why'."`
	Flavor        FlavorCmd        `cmd:"" group:"Servers, flavors and images:" help:"Create, list, show, change and delete flavors."`
	Subnet        SubnetCmd        `cmd:"" group:"Networks:" help:"Create, list, show, change and delete subnets."`
	QoS           QoSCmd           `cmd:"" name:"qos" group:"Networks:" help:"Create, list, show, change and delete QoS policies and their rules."`
	SecurityGroup SecurityGroupCmd `cmd:"" name:"security-group" group:"Networks:" help:"Create, list, show, change and delete security groups and their rules."`
	KeyPair       KeyPairCmd       `cmd:"" name:"keypair" group:"Servers, flavors and images:" help:"Create, list, show and delete key pairs for the guests of servers."`
	Aggregate     AggregateCmd     `cmd:"" group:"Hosts, devices and resources:" help:"Create, list, show, change and delete aggregates of hosts."`
	Quota         QuotaCmd         `cmd:"" group:"Hosts, devices and resources:" help:"Show and set what projects may use."`
	Port          PortCmd          `cmd:"" group:"Networks:" help:"Create, list, show, change and delete ports."`
	Host          HostCmd          `cmd:"" group:"Hosts, devices and resources:" help:"Show hosts and the conditions that their agents report; disable, drain, heal or forget hosts."`
	Device        DeviceCmd        `cmd:"" group:"Hosts, devices and resources:" help:"Show the devices of all hosts."`
	Provider      ProviderCmd      `cmd:"" group:"Hosts, devices and resources:" help:"Show resource providers and their usages."`
	Tree          TreeCmd          `cmd:"" group:"Hosts, devices and resources:" help:"Print the providers of hosts as trees, with what is used and reserved, and the holders."`
	Candidates    CandidatesCmd    `cmd:"" group:"Hosts, devices and resources:" help:"List allocation candidates of Placement, or explain why there are none."`
	Watch         WatchCmd         `cmd:"" group:"Hosts, devices and resources:" help:"Print changes of servers, hosts, devices, ports, networks and of what Placement has, as they happen."`
	Headroom      HeadroomCmd      `cmd:"" group:"Hosts, devices and resources:" help:"Show how many more servers of a flavor fit, and which resource runs out first."`
	Heal          HealCmd          `cmd:"" group:"Hosts, devices and resources:" help:"Make the network service and Placement agree with the servers of compute."`
	Cloud         CloudCmd         `cmd:"" group:"Services:" help:"Print the account and the addresses of this command as a clouds.yaml, or write them into yours."`
}

// NewCommands returns the client commands, for Kong to fill.
func NewCommands() Commands { return Commands{Server: newServerCmd(), Aggregate: newAggregateCmd()} }

// ServerCmd groups the commands on servers.
type ServerCmd struct {
	Create ServerCreateCmd `cmd:"" help:"Create servers."`
	List   ServerListCmd   `cmd:"" help:"List servers."`
	Show   ServerShowCmd   `cmd:"" help:"Show a server."`
	Delete ServerDeleteCmd `cmd:"" help:"Delete servers."`
	Why    ServerWhyCmd    `cmd:"" help:"Explain where a server was placed, and why."`

	Group   ServerGroupCmd   `cmd:"" help:"Create, list, show and delete server groups."`
	Console ServerConsoleCmd `cmd:"" help:"Connect to the serial console of a server. Ctrl-] ends the connection."`

	Add    ServerAddCmd    `cmd:"" help:"Attach ports to servers."`
	Remove ServerRemoveCmd `cmd:"" help:"Detach ports from servers."`

	Stop        ServerActionCmd  `cmd:"" help:"Stop servers; they keep their devices."`
	Start       ServerActionCmd  `cmd:"" help:"Start stopped servers."`
	Reboot      ServerRebootCmd  `cmd:"" help:"Reboot servers."`
	Rebuild     ServerRebuildCmd `cmd:"" help:"Rebuild a server on its host with the devices that it has."`
	Resize      ServerResizeCmd  `cmd:"" help:"Resize a server to another flavor, on any host; then confirm or revert."`
	Confirm     ServerActionCmd  `cmd:"" help:"Confirm a resize or migration; the resources on the source are released."`
	Revert      ServerActionCmd  `cmd:"" help:"Revert a resize or migration; the server returns to the source."`
	ServerMoves `embed:""`
	Shelve      ServerActionCmd `cmd:"" help:"Remove servers from their hosts and release their devices; unshelve schedules them again."`
	Unshelve    ServerActionCmd `cmd:"" help:"Schedule shelved servers again."`
	Restore     ServerActionCmd `cmd:"" help:"Start servers again that were deleted and are not reclaimed yet."`
}

// ServerMoves are the commands that move servers to other hosts.
type ServerMoves struct {
	Migrate   ServerMigrateCmd   `cmd:"" help:"Migrate a server to another host; then confirm or revert. With --live it keeps running and needs no confirmation."`
	Migration ServerMigrationCmd `cmd:"" help:"List moves, and abort or complete live migrations."`
	Evacuate  ServerEvacuateCmd  `cmd:"" help:"Rebuild servers on other hosts if their host is down."`
}

// newServerCmd returns the commands on servers, with the actions of those that only request one.
func newServerCmd() ServerCmd {
	return ServerCmd{
		Stop:     ServerActionCmd{action: "os-stop"},
		Start:    ServerActionCmd{action: "os-start"},
		Confirm:  ServerActionCmd{action: "confirmResize"},
		Revert:   ServerActionCmd{action: "revertResize"},
		Shelve:   ServerActionCmd{action: "shelve"},
		Unshelve: ServerActionCmd{action: "unshelve"},
		Restore:  ServerActionCmd{action: "restore"},
	}
}
