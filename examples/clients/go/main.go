// Registers a tool, follows the registry and searches it: go run . HOST:PORT
//
// Generate the stubs first, see ../README.md. Dial and WithInsecure are deprecated, but also work with the
// version of gRPC in Debian 12.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	registryv1 "agentgateway/registry/v1"

	"google.golang.org/grpc"
)

// A commit can be larger than the 4 MiB that gRPC accepts by default.
const maxMessageBytes = 64 << 20

var server = map[string]any{
	"name": "weather-service", "version": "1.0.0",
	"provides": []any{map[string]any{"tool": "get_forecast", "version": "1.0.0"}},
}

var tool = map[string]any{
	"name": "get_forecast", "version": "1.0.0",
	"description": "Weather forecast for a city",
	"source": map[string]any{
		"server": "weather-service", "serverVersion": "1.0.0", "tool": "forecast",
	},
	"inputSchema": map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
	},
}

func register(kind registryv1.EntityKind, document map[string]any) *registryv1.EntityChange {
	text, err := json.Marshal(document)
	check(err)
	change := &registryv1.EntityChange_RegisterDocument{
		RegisterDocument: &registryv1.JsonDocument{Kind: kind, Json: text},
	}
	return &registryv1.EntityChange{Change: change}
}

// next returns the revision of the next state or change, and acknowledges it.
func next(stream registryv1.SyncService_SyncClient) uint64 {
	var revision uint64
	for {
		response, err := stream.Recv()
		check(err)
		switch message := response.Message.(type) {
		case *registryv1.SyncResponse_SnapshotBegin:
			revision = message.SnapshotBegin.Position.Revision
			continue
		case *registryv1.SyncResponse_SnapshotEnd:
		case *registryv1.SyncResponse_Delta:
			revision = message.Delta.Revision
		default:
			continue
		}
		ack := &registryv1.Ack{
			AppliedRevision: revision, CacheState: registryv1.CacheState_CACHE_STATE_NONE,
		}
		check(stream.Send(&registryv1.SyncRequest{Message: &registryv1.SyncRequest_Ack{Ack: ack}}))
		return revision
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := grpc.Dial(os.Args[1], grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	check(err)
	defer connection.Close()

	stream, err := registryv1.NewSyncServiceClient(connection).Sync(ctx)
	check(err)
	hello := &registryv1.ClientHello{
		Gateway: "example", Mode: registryv1.FollowMode_FOLLOW_MODE_OBSERVER,
	}
	check(stream.Send(&registryv1.SyncRequest{Message: &registryv1.SyncRequest_Hello{Hello: hello}}))
	fmt.Println("following from revision", next(stream))

	applied, err := registryv1.NewRegistryServiceClient(connection).ApplyChanges(ctx,
		&registryv1.ApplyChangesRequest{
			Changes: []*registryv1.EntityChange{
				register(registryv1.EntityKind_ENTITY_KIND_SERVER, server),
				register(registryv1.EntityKind_ENTITY_KIND_TOOL, tool),
			},
			Message:   "Add the weather service",
			RequestId: fmt.Sprintf("example-%d", time.Now().UnixNano()),
		})
	check(err)
	fmt.Println("registered in revision", applied.Revision)
	fmt.Println("received revision", next(stream))

	found, err := registryv1.NewDiscoveryServiceClient(connection).SearchEntities(ctx,
		&registryv1.SearchEntitiesRequest{Query: "weather forecast", MinRevision: applied.Revision})
	check(err)
	for _, result := range found.Results {
		key := result.Record.Key
		fmt.Println("found", key.Kind, key.Name, key.Version)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
