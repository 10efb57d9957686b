import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Runs Kroxylicious with a configuration file: what its distribution's start script does, which Maven Central does not have. */
public class Main {
    public static void main(String[] args) throws Exception {
        ConfigParser parser = new ConfigParser();
        try (KafkaProxy proxy = new KafkaProxy(parser, parser.parseConfiguration(Files.readString(Path.of(args[0]))), Features.defaultFeatures())) {
            proxy.startup();
            proxy.block();
        }
    }
}
