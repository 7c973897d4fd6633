import { context, propagation, trace } from '@opentelemetry/api';

/** The fields of `_meta` that MCP reserves for the trace of a request. */
const FIELDS = ['traceparent', 'tracestate', 'baggage'] as const;

/**
 * Carries the trace of a call over MCP, in the `_meta` of its request: from the span of a tool that
 * an MCP server has, to the spans of that server. Give it to the modules of `@toolloop/mcp`.
 *
 * @example
 * McpClientModule.forRoot({ servers, trace: mcpTracing })
 */
export const mcpTracing = {
  /** The fields of the present trace, by the propagator of the application. */
  outgoing(): Readonly<Record<string, string>> {
    const fields: Record<string, string> = {};
    propagation.inject(context.active(), fields);
    return Object.fromEntries(
      FIELDS.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])),
    );
  },

  /**
   * Does the work of a request in the trace that it names, unless an instrumentation of HTTP has
   * continued that trace already.
   */
  incoming<Result>(meta: Readonly<Record<string, unknown>>, work: () => Result): Result {
    const fields = Object.fromEntries(
      FIELDS.flatMap((name) => (typeof meta[name] === 'string' ? [[name, meta[name]]] : [])),
    );
    const extracted = propagation.extract(context.active(), fields);
    const named = trace.getSpanContext(extracted)?.traceId;
    if (named === undefined || named === trace.getSpanContext(context.active())?.traceId)
      return work();
    return context.with(extracted, work);
  },
};
