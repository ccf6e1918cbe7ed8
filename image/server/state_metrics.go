package server

import (
	"context"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/image/store"
)

// watchState adds metrics of the images and their directory.
func (s *server) watchState() {
	m := s.Metrics
	images := m.Gauges("images", "Images, by status.", "status")
	size := m.Gauges("stored_bytes", "Bytes of the data of all images.")
	free := m.Gauges("free_bytes", "Bytes that the file system of the images has left.")
	m.WatchState(func(context.Context) ([]edge.Sample, error) {
		left, err := s.Store.Free()
		if err != nil {
			return nil, err
		}
		count, stored := map[store.Status]int{}, int64(0)
		for _, i := range s.Store.List() {
			count[i.Status]++
			stored += i.Size
		}
		list := []edge.Sample{{Of: size, Value: float64(stored)}, {Of: free, Value: float64(left)}}
		for status, n := range count {
			list = append(list, edge.Sample{Of: images, Value: float64(n), Labels: []string{string(status)}})
		}
		return list, nil
	}, images, size, free)
}
