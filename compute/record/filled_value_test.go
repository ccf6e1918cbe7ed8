package record

import (
	"fmt"
	"reflect"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
)

// filler sets the fields of a value to different values, so that a test detects exchanged fields.
type filler struct {
	n     int
	empty bool // lists, maps and pointers are empty and not nil; other values are zero
	bit   int  // of n, counted from 1: a bool is true if this bit of n is set. 0: every bool is true
}

// bits is the number of bits that a filler needs to distinguish all bools.
const bits = 12

// filled returns a value with every exported field set, at any depth.
func filled[T any]() (v T) {
	(&filler{}).fill(reflect.ValueOf(&v).Elem())
	return v
}

// filledByBit returns a value like filled. For any two bools there is a bit for which they differ.
func filledByBit[T any](bit int) (v T) {
	f := filler{bit: bit}
	f.fill(reflect.ValueOf(&v).Elem())
	if f.n >= 1<<bits {
		panic("the filler needs more bits")
	}
	return v
}

// emptied returns a value whose lists, maps and pointers are empty and not nil.
func emptied[T any]() (v T) {
	(&filler{empty: true}).fill(reflect.ValueOf(&v).Elem())
	return v
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.length(), f.length()))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.length() {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		f.fillStruct(v)
	default:
		if !f.empty {
			f.fillOne(v)
		}
	}
}

func (f *filler) length() int {
	if f.empty {
		return 0
	}
	return 2
}

func (f *filler) fillStruct(v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		if !f.empty {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 1000*f.n, time.UTC)))
		}
	case *pci.Address:
		if !f.empty {
			v.Set(reflect.ValueOf(pci.Address{Domain: 0x10000, Bus: uint8(f.n), Slot: 0x1f, Func: 7}))
		}
	default:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	}
}

func (f *filler) fillOne(v reflect.Value) {
	word := map[reflect.Type]any{
		reflect.TypeFor[lifecycle.State]():     lifecycle.Moving,
		reflect.TypeFor[lifecycle.MovePhase](): lifecycle.LiveMigrating,
		reflect.TypeFor[lifecycle.Task]():      lifecycle.ResizeReverting,
		reflect.TypeFor[lifecycle.Kind]():      lifecycle.LiveMigration,
		reflect.TypeFor[lifecycle.Power]():     lifecycle.Off,
		reflect.TypeFor[pci.Type]():            pci.Virtual,
	}[v.Type()]
	switch {
	case word != nil:
		v.Set(reflect.ValueOf(word))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.n))
	case v.Kind() == reflect.Bool:
		v.SetBool(f.bit == 0 || f.n>>(f.bit-1)&1 == 1)
	case v.Kind() == reflect.Int64:
		v.SetInt(1<<53 + 1 + 2*int64(f.n)) // a number that float64 cannot represent
	case v.CanInt():
		v.SetInt(int64(f.n))
	case v.CanUint():
		v.SetUint(uint64(f.n))
	case v.CanFloat():
		v.SetFloat(float64(f.n) + 0.25)
	default:
		panic("the filler does not support " + v.Type().String())
	}
}
