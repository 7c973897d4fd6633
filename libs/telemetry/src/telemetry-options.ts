import type { IncomingMessage, ServerResponse } from 'node:http';
import type { MeterProvider, TracerProvider } from '@opentelemetry/api';

export interface TelemetryOptions {
  /**
   * Puts what models read and write, and what tools take and return, on the spans. Each text passes
   * `redact` first: what it returns is exported, and nothing where it returns undefined. Arguments
   * and results are those that people may see: hidden ones are `[redacted]` already. Messages are
   * what the model reads, which may be more.
   * @default none of it
   */
  readonly content?: {
    readonly redact: (text: string, part: TelemetryContent) => string | undefined;
  };
  /**
   * Counts each tenant by itself in the metrics, where there are few of them: each is a series of
   * its own. @default false
   */
  readonly tenantLabel?: boolean;
  /**
   * Writes lines about runs to Nest's logger, each with the ids of its run, step and call: as
   * texts, or as objects for a logger that writes JSON. They hold no text of models, people or
   * tools.
   * @default none
   */
  readonly logs?: 'text' | 'object';
  /**
   * Continues the trace that a request's `traceparent` header names, unless an instrumentation of
   * HTTP has done so already. @default true
   */
  readonly incoming?: boolean;
  /**
   * Serves the metrics to a scraper. The exporter must be a reader of the meter provider as well.
   * @default no route
   */
  readonly metrics?: {
    readonly exporter: MetricsExporter;
    /** @default 'metrics' */
    readonly path?: string;
    /**
     * Returns whether a request may read the metrics. They tell which tools exist and how much they
     * are used, so no one may by default.
     */
    readonly allow: (request: IncomingMessage) => boolean | Promise<boolean>;
  };
  /** @default the global one */
  readonly tracerProvider?: TracerProvider;
  /** @default the global one */
  readonly meterProvider?: MeterProvider;
}

/** A part of a run that a span may show. */
export type TelemetryContent = 'instructions' | 'messages' | 'answer' | 'arguments' | 'result';

/**
 * An exporter that answers a scrape, such as `PrometheusExporter` of
 * `@opentelemetry/exporter-prometheus`.
 */
export interface MetricsExporter {
  getMetricsRequestHandler(request: IncomingMessage, response: ServerResponse): void;
}

/** The token under which the options are provided. */
export const TELEMETRY_OPTIONS = Symbol('toolloop.telemetry.options');

/** @throws {TypeError} Where options cannot be used, with all that is wrong with them. */
export function assertUsable({ content, metrics }: TelemetryOptions): void {
  const wrong = [
    ...(content && typeof content.redact !== 'function'
      ? ['content has no redact: give a function that returns the text as it may be exported.']
      : []),
    ...(metrics && typeof metrics.allow !== 'function'
      ? ['metrics has no allow: give a function that returns whether a request may read them.']
      : []),
    ...(metrics && typeof metrics.exporter?.getMetricsRequestHandler !== 'function'
      ? [
          'metrics has no exporter that serves requests: give a PrometheusExporter with preventServerStart: true.',
        ]
      : []),
  ];
  if (wrong.length > 0)
    throw new TypeError(`TelemetryModule.forRoot cannot be used as it is: ${wrong.join(' ')}`);
}
