package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

func TestAssignmentStream(t *testing.T) {
	scenario(t, "ended streams are opened again", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		for i := range 5 {
			id := fmt.Sprintf("s%d", i)
			w.compute.endStreams()
			w.compute.assign(w.server(id))
			w.untilPhase(host.Running, id)
		}
		must(t, stop())
		if n := w.compute.count(&w.compute.streams); n != 7 { // the first only asks for admission
			t.Errorf("%d streams", n)
		}
	})
	scenario(t, "a stream without messages is closed after three heartbeats", func(t *testing.T, w *testHost) {
		w.compute.muteStreams(true)
		_, stop := w.startReported()
		time.Sleep(10 * host.Heartbeat)
		must(t, stop())
		if n := w.compute.count(&w.compute.streams); n < 3 || n > 5 {
			t.Errorf("%d streams in ten heartbeats", n)
		}
	})
}
