// Allocates devices as kube-scheduler does: one pod at a time, on one node, by Kubernetes' own module.
//
// Each line on stdin is a question in JSON, and each line on stdout its answer:
//
//	{"node": Node, "slices": [ResourceSlice], "classes": [DeviceClass], "claims": [ResourceClaim],
//	 "taken": ["driver/pool/device"]}
//	{"allocations": [AllocationResult]}, one for each claim; null if they cannot be had
//	{"error": "..."} for a question that the allocator refuses
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	longestLine = 64 << 20
	// The search may take exponential time; kube-scheduler has such a limit, too.
	longestSearch = 10 * time.Second
)

type question struct {
	Node    *core.Node                `json:"node"`
	Slices  []*resource.ResourceSlice `json:"slices"`
	Classes []*resource.DeviceClass   `json:"classes"`
	Claims  []*resource.ResourceClaim `json:"claims"`
	Taken   []string                  `json:"taken"`
}

type answer struct {
	Allocations []resource.AllocationResult `json:"allocations"`
	Error       string                      `json:"error,omitempty"`
}

type classes []*resource.DeviceClass

func (c classes) List() ([]*resource.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resource.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no DeviceClass %s", name)
}

func main() {
	features := structured.Features{
		ConsumableCapacity:   true,
		DeviceTaints:         true,
		PartitionableDevices: true,
		PrioritizedList:      true,
	}
	cache := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		found, err := allocate(lines.Bytes(), features, cache)
		told := answer{Allocations: found}
		if err != nil {
			told.Error = err.Error()
		}
		if err := out.Encode(told); err != nil {
			panic(err)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}

func allocate(line []byte, features structured.Features, cache *cel.Cache) ([]resource.AllocationResult, error) {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	taken := sets.New[structured.DeviceID]()
	for _, device := range asked.Taken {
		// the name of a pool may have slashes
		first, last := strings.Index(device, "/"), strings.LastIndex(device, "/")
		if first < 0 || first == last {
			return nil, fmt.Errorf("%s is not driver/pool/device", device)
		}
		taken.Insert(structured.MakeDeviceID(device[:first], device[first+1:last], device[last+1:]))
	}
	state := structured.AllocatedState{
		AllocatedDevices:         taken,
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestSearch)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, features, state, classes(asked.Classes), asked.Slices, cache)
	if err != nil {
		return nil, err
	}
	return allocator.Allocate(ctx, asked.Node, asked.Claims)
}
