package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/resource"
)

// AmountClass is a class that hosts have by amount, summed over the providers of a host.
type AmountClass struct {
	Class resource.Class
	Name  string // the head of its column, with the unit
	Unit  int    // how much of the class is one of that unit
}

// amountClasses are the classes with a column, in order.
var amountClasses = []AmountClass{
	{"NET_BW_EGR_KILOBIT_PER_SEC", "Egress, Mbit/s", 1000},
	{"PCPU", "PCPU", 1},
	{"VCPU", "VCPU", 1},
	{"MEMORY_MB", "Memory, GiB", 1024},
	{"DISK_GB", "Disk, GB", 1},
}

// Amount is how much of a class is used and how much there is, in the unit of the column.
type Amount struct{ Used, Of int }

// Share returns how much is used in percent.
func (a Amount) Share() int {
	if a.Of <= 0 {
		return 0
	}
	return min(max(a.Used*100/a.Of, 0), 100)
}

// Text returns the amount as in "8/16"; empty if there is none.
func (a Amount) Text() string {
	if a.Of == 0 && a.Used == 0 {
		return ""
	}
	return Number(a.Used) + "/" + Number(a.Of)
}

// addAmounts sums the amounts of hosts over their providers, and lists the classes that any host has.
func (c *Cloud) addAmounts() {
	seen := map[AmountClass]bool{}
	for i := range c.Fleet.Providers {
		p := &c.Fleet.Providers[i]
		h := c.byName[c.Fleet.HostOf(p)]
		if h == nil {
			continue
		}
		if kind, _ := c.Fleet.KindOf(p); kind.IsDevice() {
			continue
		}
		for _, class := range amountClasses {
			inventory, has := p.Inventories[class.Class]
			if !has {
				continue
			}
			seen[class] = true
			a := h.Amount[class]
			a.Used, a.Of = a.Used+p.Used(class.Class), a.Of+inventory.Capacity()
			h.Amount[class] = a
		}
	}
	for _, h := range c.Hosts {
		for class, a := range h.Amount {
			h.Amount[class] = Amount{(a.Used + class.Unit - 1) / class.Unit, a.Of / class.Unit}
		}
	}
	for _, class := range amountClasses {
		if seen[class] {
			c.Amounts = append(c.Amounts, class)
		}
	}
}

// Number returns a number with narrow spaces between the thousands.
func Number(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// Plural returns a number with a noun, which gets an s unless the number is one.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", Number(n), noun)
}

// size returns a size of pages for people.
func size(kb int) string {
	switch {
	case kb >= 1<<20 && kb%(1<<20) == 0:
		return fmt.Sprintf("%d GiB", kb>>20)
	case kb >= 1<<10 && kb%(1<<10) == 0:
		return fmt.Sprintf("%d MiB", kb>>10)
	}
	return fmt.Sprintf("%d KiB", kb)
}

// ranges returns ascending numbers as in "0-3,8"; "none" for none.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if part := fmt.Sprint(list[i]); i == j {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s-%d", part, list[j]))
		}
		i = j + 1
	}
	return cmp.Or(strings.Join(parts, ","), "none")
}
