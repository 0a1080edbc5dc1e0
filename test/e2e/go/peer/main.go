// SPDX-License-Identifier: Apache-2.0

// peer talks to a device plugin as the kubelet does, with the kubelet's own gRPC and messages: `peer SOCKET`. It takes the plugin up,
// calls every method, asks some things that a kubelet never would, and listens until its stdin ends. Each thing that it saw is a
// line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

var printing sync.Mutex

func say(what string, value any) {
	printing.Lock()
	defer printing.Unlock()
	line, err := json.Marshal(map[string]any{what: value})
	if err != nil {
		line = fmt.Appendf(nil, `{"error": %q}`, err)
	}
	fmt.Println(string(line))
}

// dial does what the kubelet's two dials do (pkg/kubelet/pluginmanager/operationexecutor, pkg/kubelet/cm/devicemanager/plugin/v1beta1): the
// first sends the path as :authority, the second "localhost".
func dial(socket string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithBlock(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}),
	}, more...)
	return grpc.DialContext(ctx, socket, options...)
}

// told is what a call came to: "OK", or the code and the sentence.
func told(err error) string {
	if err == nil {
		return "OK"
	}
	return status.Code(err).String() + ": " + status.Convert(err).Message()
}

func takeUp(socket string) error {
	c, err := dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := registration.NewRegistrationClient(c)
	info, err := client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return err
	}
	say("info", map[string]any{"type": info.Type, "name": info.Name, "endpoint": info.Endpoint, "versions": info.SupportedVersions})
	_, err = client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true})
	say("notified", told(err))
	return nil
}

// listen prints each list until the stream ends.
func listen(client api.DevicePluginClient, first chan<- []string) {
	stream, err := client.ListAndWatch(context.Background(), &api.Empty{})
	for err == nil {
		var list *api.ListAndWatchResponse
		if list, err = stream.Recv(); err != nil {
			break
		}
		healthy, ids := 0, make([]string, 0, len(list.Devices))
		for _, d := range list.Devices {
			ids = append(ids, d.ID)
			if d.Health == api.Healthy {
				healthy++
			}
		}
		say("list", map[string]int{"devices": len(ids), "healthy": healthy})
		if first != nil {
			first <- ids
			first = nil
		}
	}
	say("ended", told(err))
}

func allocate(ctx context.Context, client api.DevicePluginClient, ids []string, options ...grpc.CallOption) (*api.AllocateResponse, error) {
	request := &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}}
	return client.Allocate(ctx, request, options...)
}

// many has a hundred at once.
func many(ctx context.Context, client api.DevicePluginClient, ids []string) string {
	var group sync.WaitGroup
	errors := make(chan error, 100)
	for i := range 100 {
		group.Add(1)
		go func() {
			defer group.Done()
			if _, err := allocate(ctx, client, ids[i:i+1]); err != nil {
				errors <- err
			}
		}()
	}
	group.Wait()
	close(errors)
	return told(<-errors)
}

func everyMethod(client api.DevicePluginClient, ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	options, err := client.GetDevicePluginOptions(ctx, &api.Empty{})
	say("options", map[string]any{"told": told(err), "preferred": options.GetGetPreferredAllocationAvailable(), "prestart": options.GetPreStartRequired()})
	given, err := allocate(ctx, client, ids[:3])
	say("allocate", map[string]any{"told": told(err), "containers": len(given.GetContainerResponses())})
	_, err = client.GetPreferredAllocation(ctx, &api.PreferredAllocationRequest{ContainerRequests: []*api.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: ids[:10], MustIncludeDeviceIDs: ids[4:5], AllocationSize: 3}}})
	say("preferred", told(err))
	_, err = client.PreStartContainer(ctx, &api.PreStartContainerRequest{DevicesIds: ids[:3]})
	say("prestart", told(err))
	say("many", many(ctx, client, ids))
}

func whatNoKubeletAsks(c *grpc.ClientConn, client api.DevicePluginClient, ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := c.Invoke(ctx, "/v1beta1.DevicePlugin/None", &api.Empty{}, &api.Empty{})
	say("unknown", told(err))
	_, err = allocate(ctx, client, ids[:1], grpc.UseCompressor(gzip.Name))
	say("compressed", told(err))
	var long []string
	for size := 0; size < 1200000; size += len(ids[len(ids)-1]) + 2 {
		long = append(long, ids[len(long)%len(ids)])
	}
	_, err = allocate(ctx, client, long)
	say("long", told(err))
	_, err = allocate(ctx, client, []string{strings.Repeat("x", 5<<20)})
	say("oversize", told(err))
	_, err = allocate(ctx, client, []string{"\x00\n\"none\""})
	say("odd", told(err))
	hasty, stop := context.WithCancel(ctx)
	stream, err := client.ListAndWatch(hasty, &api.Empty{})
	if err == nil {
		_, err = stream.Recv()
	}
	stop()
	say("second", told(err))
	_, err = client.GetDevicePluginOptions(ctx, &api.Empty{})
	say("after", told(err))
}

func run(socket string) error {
	if err := takeUp(socket); err != nil {
		return err
	}
	c, err := dial(socket, grpc.WithAuthority("localhost"))
	if err != nil {
		return err
	}
	client := api.NewDevicePluginClient(c)
	first := make(chan []string, 1)
	go listen(client, first)
	select {
	case ids := <-first:
		if len(ids) < 100 {
			return fmt.Errorf("only %d devices", len(ids))
		}
		everyMethod(client, ids)
		whatNoKubeletAsks(c, client, ids)
	case <-time.After(10 * time.Second):
		return status.Error(codes.DeadlineExceeded, "no list")
	}
	say("done", true)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Close()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: peer SOCKET")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		say("failed", told(err))
		os.Exit(1)
	}
}
