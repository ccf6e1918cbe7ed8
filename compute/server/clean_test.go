package server

import (
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
)

func TestWishesEnd(t *testing.T) {
	var w wishes
	now := time.Now()
	w.add("h", pci.Address{Bus: 2}, now)
	w.add("h", pci.Address{Bus: 1}, now.Add(time.Second))
	w.add("other", pci.Address{Bus: 3}, now)
	if got := w.of("h", now.Add(2*time.Second)); !reflect.DeepEqual(got, []host.Wish{{Address: "0000:01:00.0", Asked: now.Add(time.Second)}, {Address: "0000:02:00.0", Asked: now}}) {
		t.Error(got)
	}
	if got := w.of("h", now.Add(wishLife)); !reflect.DeepEqual(got, []host.Wish{{Address: "0000:01:00.0", Asked: now.Add(time.Second)}}) {
		t.Error(got)
	}
	if got := w.of("h", now.Add(2*wishLife)); got != nil {
		t.Error(got)
	}
}
