package loop

import (
	"testing"
	"time"
)

func TestHostReportInterval(t *testing.T) {
	scenario(t, "a host with a long rescan interval reports at least once a minute", func(t *testing.T, w *testHost) {
		w.options.Rescan = time.Hour
		_, stop := w.startReported()
		time.Sleep(time.Second)
		before := w.compute.count(&w.compute.reports)
		time.Sleep(10*time.Minute + time.Second)
		must(t, stop())
		if n := w.compute.count(&w.compute.reports) - before; n < 10 || n > 15 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
	scenario(t, "a quiet host reports at least once a minute", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		time.Sleep(time.Second)
		before := w.compute.count(&w.compute.reports)
		time.Sleep(10*time.Minute + time.Second)
		must(t, stop())
		if n := w.compute.count(&w.compute.reports) - before; n < 10 || n > 25 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
}
