import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type DynamicModule,
  Inject,
  type MiddlewareConsumer,
  Module,
  type NestModule,
  RequestMethod,
} from '@nestjs/common';
import { context, metrics, propagation, trace } from '@opentelemetry/api';
import { LoopInstrumentation } from './loop-instrumentation.js';
import { LoopLogs } from './loop-logs.js';
import { LoopMetrics } from './loop-metrics.js';
import { LoopSpanEvents } from './loop-span-events.js';
import { SpanContent } from './span-content.js';
import { assertUsable, TELEMETRY_OPTIONS, type TelemetryOptions } from './telemetry-options.js';

/**
 * Makes the runs of an application seen in OpenTelemetry. It uses the tracer, the meter, the
 * context manager and the propagator that the application registers, such as those of `NodeSDK`,
 * and exports nothing itself.
 *
 * @example
 * TelemetryModule.forRoot({
 *   metrics: {
 *     exporter: prometheus,
 *     allow: ({ headers }) => headers.authorization === `Bearer ${process.env.SCRAPE_TOKEN}`,
 *   },
 * });
 */
@Module({})
export class TelemetryModule implements NestModule {
  constructor(@Inject(TELEMETRY_OPTIONS) private readonly options: TelemetryOptions) {}

  /**
   * @throws {TypeError} Where content is to be shown and not redacted, or metrics are served to
   *   everybody.
   */
  static forRoot(options: TelemetryOptions = {}): DynamicModule {
    assertUsable(options);
    const {
      tracerProvider = trace,
      meterProvider = metrics,
      content,
      tenantLabel = false,
    } = options;
    const counted = new LoopMetrics(meterProvider.getMeter(NAME), tenantLabel);
    return {
      module: TelemetryModule,
      providers: [
        { provide: TELEMETRY_OPTIONS, useValue: options },
        {
          provide: LoopInstrumentation,
          useFactory: () =>
            new LoopInstrumentation(
              tracerProvider.getTracer(NAME),
              counted,
              new SpanContent(content),
            ),
        },
        { provide: LoopSpanEvents, useFactory: () => new LoopSpanEvents(counted) },
        ...(options.logs ? [{ provide: LoopLogs, useValue: new LoopLogs(options.logs) }] : []),
      ],
    };
  }

  configure(consumer: MiddlewareConsumer): void {
    const { incoming = true, metrics: served } = this.options;
    if (incoming) consumer.apply(continueTrace).forRoutes('{*path}');
    if (served)
      consumer
        .apply(serveMetrics(served))
        .forRoutes({ path: served.path ?? 'metrics', method: RequestMethod.GET });
  }
}

const NAME = '@toolloop/telemetry';

/** Runs a request in the trace that its caller names. */
function continueTrace(
  { headers }: IncomingMessage,
  _response: ServerResponse,
  next: () => void,
): void {
  if (trace.getActiveSpan()) return next();
  return context.with(propagation.extract(context.active(), headers), next);
}

function serveMetrics({ exporter, allow }: NonNullable<TelemetryOptions['metrics']>) {
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (await allow(request)) return exporter.getMetricsRequestHandler(request, response);
    response
      .writeHead(403, { 'content-type': 'text/plain' })
      .end('The metrics are not for this caller.');
  };
}
