package clienttest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// RabbitMQ starts RabbitMQ and the Erlang port mapper on loopback, with their files in a directory, and returns its
// URL. They end with the test.
func RabbitMQ(t testing.TB, dir string) string {
	t.Helper()
	home := filepath.Join(dir, "rabbit")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	mapper, node, dist := Free(t), Free(t), Free(t)
	ports := map[string]string{}
	for name, addr := range map[string]string{"mapper": mapper, "node": node, "dist": dist} {
		_, ports[name], _ = strings.Cut(addr, ":")
	}
	Run(t, filepath.Join(dir, "epmd.log"), "", "epmd", "-address", "127.0.0.1", "-port", ports["mapper"])
	Write(t, filepath.Join(home, "plugins"), "[].\n")
	Write(t, filepath.Join(home, "rabbitmq.conf"), "listeners.tcp.1 = "+node+"\n")
	Run(t, filepath.Join(dir, "rabbit.log"), "", "env", "-C", home, "HOME="+home, // Erlang writes dumps there
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT="+ports["mapper"],
		"RABBITMQ_NODENAME=berth"+ports["node"]+"@localhost", "RABBITMQ_DIST_PORT="+ports["dist"],
		"RABBITMQ_CONFIG_FILE="+home+"/rabbitmq.conf",
		"RABBITMQ_MNESIA_BASE="+home, "RABBITMQ_LOG_BASE="+home, "RABBITMQ_ENABLED_PLUGINS_FILE="+home+"/plugins",
		"RABBITMQ_PID_FILE="+home+"/pid",
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"/usr/lib/rabbitmq/bin/rabbitmq-server")
	testenv.Until(t, "RabbitMQ listens", func() error {
		conn, err := net.Dial("tcp", node)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return "rabbit://guest:guest@" + node + "/"
}
