// Usage: java -cp ... GrpcJava hedge CONFIG | accept CONFIG...   Tries service configs on grpc-java, prints JSON lines.
// hedge: a server whose first attempt is slow.   accept: one that answers at once; only whether the config is taken counts.
import com.google.gson.Gson;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

public class GrpcJava {
    static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException error) {
                throw new RuntimeException(error);
            }
        }
    };

    static MethodDescriptor<byte[], byte[]> method(String name) {
        return MethodDescriptor.<byte[], byte[]>newBuilder(BYTES, BYTES)
                .setType(MethodDescriptor.MethodType.UNARY)
                .setFullMethodName("llm.Chat/" + name)
                .build();
    }

    public static void main(String[] args) throws Exception {
        boolean hedge = args[0].equals("hedge");
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(4);
        AtomicInteger attempts = new AtomicInteger();
        AtomicInteger cancelled = new AtomicInteger();
        AtomicLong started = new AtomicLong();
        AtomicLong copyAfter = new AtomicLong(-1);
        List<String> names = List.of("Complete", "CallTool");
        ServerServiceDefinition.Builder service = ServerServiceDefinition.builder("llm.Chat");
        for (String name : names) {
            service.addMethod(method(name), ServerCalls.asyncUnaryCall((request, observer) -> {
                int number = attempts.getAndIncrement();
                if (number == 1) copyAfter.set((System.nanoTime() - started.get()) / 1_000_000);
                ((ServerCallStreamObserver<byte[]>) observer).setOnCancelHandler(cancelled::incrementAndGet);
                clock.schedule(() -> {
                    try {
                        observer.onNext(("answer " + number).getBytes(StandardCharsets.UTF_8));
                        observer.onCompleted();
                    } catch (RuntimeException lost) {
                        // the loser was cancelled
                    }
                }, hedge && number == 0 ? 2500 : 0, TimeUnit.MILLISECONDS);
            }));
        }
        Server server = InProcessServerBuilder.forName("llm").addService(service.build()).build().start();
        for (String file : List.of(args).subList(1, args.length)) {
            for (String name : hedge ? names : names.subList(0, 1)) {
                attempts.set(0);
                cancelled.set(0);
                copyAfter.set(-1);
                started.set(System.nanoTime());
                String outcome = call(file, name);
                if (hedge) Thread.sleep(150);
                System.out.println(new Gson().toJson(Map.of("method", name, "value", outcome, "attempts",
                        attempts.get(), "cancelled", cancelled.get(), "copy_after_ms", copyAfter.get())));
            }
        }
        server.shutdownNow();
        clock.shutdownNow();
        System.exit(0);
    }

    @SuppressWarnings("unchecked")
    static String call(String file, String name) throws IOException {
        Map<String, ?> config = new Gson().fromJson(Files.readString(Path.of(file)), Map.class);
        ManagedChannel channel = null;
        try {
            channel = InProcessChannelBuilder.forName("llm").enableRetry().defaultServiceConfig(config).build();
            return new String(ClientCalls.blockingUnaryCall(channel, method(name), CallOptions.DEFAULT, new byte[1]),
                    StandardCharsets.UTF_8);
        } catch (StatusRuntimeException error) {
            return error.getStatus().getCode().toString();
        } catch (RuntimeException error) {
            return "REFUSED " + error;
        } finally {
            if (channel != null) channel.shutdownNow();
        }
    }
}
