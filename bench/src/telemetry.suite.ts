import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { TelemetryModule } from '@toolloop/telemetry';
import { toolloopDrivers } from './drivers/toolloop.driver.js';
import { startProvider } from './local-provider.js';
import { entry } from './race.js';
import type { Section, Suite } from './report.js';
import { compare } from './sampling.js';
import type { Task } from './task.js';

const TASK: Task = { steps: 10, chunks: 20, pace: 'one write' };
const ROUNDS = { rounds: 21, warmUp: 8 };
const BARE = 'without telemetry';
const SILENT = 'with telemetry, and no SDK';
const SEEN = 'with spans and metrics';

/** An exporter whose cost is none: that of a real one depends on where it sends. */
const NOWHERE: SpanExporter = {
  export: (_spans, done) => done({ code: 0 }),
  shutdown: () => Promise.resolve(),
};

/** The cost of telemetry to a run: every span is recorded, every metric counted. */
export const telemetrySuite: Suite = {
  name: 'telemetry',
  async run(): Promise<Section> {
    const provider = await startProvider();
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const tracerProvider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter: NOWHERE })] });
    const meterProvider = new MeterProvider({ readers: [new PrometheusExporter({ preventServerStart: true })] });
    const bare = await toolloopDrivers();
    const silent = await toolloopDrivers({ imports: [TelemetryModule.forRoot()] });
    const seen = await toolloopDrivers({ imports: [TelemetryModule.forRoot({ tracerProvider, meterProvider })] });
    const entries = Object.entries({ [BARE]: bare, [SILENT]: silent, [SEEN]: seen }).flatMap(([name, { drivers }]) =>
      drivers.slice(0, 1).map((driver) => entry(driver, TASK, { provider, runs: 12, name })),
    );
    const samples = await compare(entries, ROUNDS);
    for (const driver of [bare, silent, seen].flatMap(({ drivers }) => drivers)) await driver.close();
    await tracerProvider.shutdown();
    await meterProvider.shutdown();
    context.disable();
    trace.disable();
    await provider.stop();
    const ratio = samples.ratio(SEEN, BARE, 'cpu');
    return {
      title: 'a run that is seen in OpenTelemetry',
      method: [
        `A run of ${TASK.steps} steps over a local provider, one call in each: ${2 * TASK.steps} spans. CPU time of this process, all threads; the ratio is the median of`,
        'the ratios of each round. Spans go through the batch processor of the SDK to an exporter that drops them.',
      ],
      tables: [
        {
          title: 'CPU of a run in µs',
          columns: [
            { key: 'name', title: 'run' },
            { key: 'us', title: 'µs', digits: 0 },
            { key: 'ratio', title: '×' },
          ],
          rows: [BARE, SILENT, SEEN].map((name) => ({ name, us: samples.of(name, 'cpu'), ratio: samples.ratio(name, BARE, 'cpu') })),
        },
      ],
      targets: [{ what: 'a run with telemetry, to one without', value: ratio, unit: '×', atMost: 1.05 }],
      skipped: [],
    };
  },
};
