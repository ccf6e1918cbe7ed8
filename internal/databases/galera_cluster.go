package databases

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// libraries are the paths of the Galera provider library on Debian and other distributions.
const libraries = "/usr/lib*/galera*/libgalera_smm.so"

// Cluster is a Galera cluster of MariaDB servers that belongs to one test: each node has all data and executes
// all statements.
//
// Nodes can be killed and restarted like any server. The others exclude a killed node after Suspect; until then COMMITs
// wait on all nodes. If most nodes have died, the others reject all statements (error 1047) until Bootstrap; then the
// dead nodes may be restarted.
type Cluster struct {
	Nodes []*Server

	made atomic.Int64
}

// Suspect is how long a node must be unreachable before the others continue without it. Galera's default is 5 s; a
// shorter time would exclude healthy nodes on a busy machine.
const Suspect = 3 * time.Second

// wsrep is the replication configuration of a node.
type wsrep struct {
	cluster  string   // its name, so that no other test's node joins
	provider string   // the library
	peers    []string // where each node listens for the others
	port     string   // where this one does
	ist, sst string   // where it receives missed changes, and a whole copy
}

// Galera starts a cluster with this number of nodes for one test. options are as for MariaDB, on each node.
func Galera(t testing.TB, nodes int, options ...string) *Cluster {
	t.Helper()
	testenv.Need(t, "Galera")
	found, err := filepath.Glob(libraries)
	if err != nil || len(found) == 0 {
		t.Fatal(missing("Galera (galera-4)", fmt.Errorf("%s: %w", libraries, os.ErrNotExist)))
	}
	all := make([]wsrep, nodes)
	peers := make([]string, nodes)
	for i := range all {
		for _, slot := range []*string{&peers[i], &all[i].ist, &all[i].sst} {
			if *slot, err = freeAddr(); err != nil {
				t.Fatal(err)
			}
		}
		_, all[i].port = split(peers[i])
	}
	c := &Cluster{}
	for i, w := range all {
		w.provider, w.peers, w.cluster = found[0], peers, "berth"+all[0].port
		s, who := place(t, galera(w))
		c.Nodes = append(c.Nodes, s)
		if i == 0 {
			c.found(t, who, options)
			continue
		}
		// A copy of the first node's files; later changes come from the other nodes.
		if out, err := s.run(who, []string{"cp", "-a", c.Nodes[0].dir + "/seed/.", s.dir}); err != nil {
			t.Fatalf("the files of node %d: %v\n%s", i, err, out)
		}
		s.serveAt(t, options)
		s.Restart(t)
	}
	return c
}

// found creates the first node's files, copies them for the others, and starts the cluster.
func (c *Cluster) found(t testing.TB, who *syscall.Credential, options []string) {
	t.Helper()
	s := c.Nodes[0]
	s.install(t, who)
	s.serveAt(t, options)
	s.serve(t, "--wsrep-new-cluster")
	if err := s.exec(s.kind.ready...); err != nil {
		t.Fatal(err)
	}
	// The response may be lost. A clean shutdown records a position in the cluster's history that copies can share.
	s.exec("SHUTDOWN")
	for last := time.Now().Add(patience); !s.alive.over(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(last) {
			t.Fatalf("%s does not end; its log:\n%s", s.kind.name, s.log())
		}
	}
	s.Kill(t)
	seed := s.dir + "/seed"
	copied := []string{"sh", "-c", "rm -f galera.cache gvwstate.dat *.log && set -- * && mkdir seed && cp -a \"$@\" seed"}
	if out, err := s.run(who, copied); err != nil {
		t.Fatalf("the copy %s: %v\n%s", seed, err, out)
	}
	s.serve(t, "--wsrep-new-cluster")
}

// galera is MariaDB as a node of a cluster.
func galera(w wsrep) kind {
	k := mariaDB()
	k.name = "Galera"
	alone := k.serve
	k.serve = func(s *Server) []string {
		host, _ := split(s.Addr)
		_, ist := split(w.ist)
		return append(alone(s), "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON",
			"--wsrep-provider="+w.provider,
			"--wsrep-cluster-name="+w.cluster, "--wsrep-cluster-address=gcomm://"+strings.Join(w.peers, ","),
			"--wsrep-node-name="+w.port,
			"--wsrep-node-address="+host, "--wsrep-sst-method=rsync", "--wsrep-sst-receive-address="+w.sst,
			"--wsrep-provider-options=base_port="+w.port+";gmcast.listen_addr=tcp://"+net.JoinHostPort(host, w.port)+
				";ist.recv_addr="+net.JoinHostPort(host, ist)+";ist.recv_bind="+net.JoinHostPort(host, ist)+
				";gcache.size=16M;evs.suspect_timeout=PT"+strconv.Itoa(int(Suspect.Seconds()))+"S")
	}
	k.awake = []string{"SELECT 1 FROM mysql.global_priv"} // fails until the node has joined the cluster
	k.before = recovered
	k.open = func(addr, database string) (*sql.DB, error) {
		// reads what was committed on any node
		return administrator(addr, database, map[string]string{"wsrep_sync_wait": "15"})
	}
	return k
}

// recovered reads the position in the cluster's history from the files of a killed node, so that only missing changes
// are sent.
func recovered(s *Server, who *syscall.Credential) ([]string, error) {
	out, err := s.run(who, append(append([]string(nil), s.args...), "--wsrep-recover"))
	position := regexp.MustCompile(`WSREP: Recovered position: ([0-9a-f-]+:\d+)`).FindStringSubmatch(out)
	if position == nil {
		return nil, fmt.Errorf("no recovered position in the output: %v\n%s", err, out)
	}
	return []string{"--wsrep-start-position=" + position[1]}, nil
}

// Database creates an empty database on all nodes and returns its SQLAlchemy URL on each.
func (c *Cluster) Database(t testing.TB) (urls []string) {
	t.Helper()
	name := fmt.Sprintf("berth_%d", c.made.Add(1))
	if err := c.Nodes[0].exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Nodes {
		if err := s.exec("SHOW TABLES FROM " + name); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, s.kind.url(s.Addr, name))
	}
	return urls
}

// Bootstrap lets a node that is alone continue as the whole cluster; restarted nodes join it.
func (c *Cluster) Bootstrap(t testing.TB, node int) {
	t.Helper()
	if err := c.Nodes[node].exec("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"); err != nil {
		t.Fatal(err)
	}
	c.Nodes[node].await(t)
}
