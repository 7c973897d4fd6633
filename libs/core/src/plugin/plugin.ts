import type { CallPoints } from './call-points.js';
import type { RunPoints } from './run-points.js';

/**
 * A feature beside the kernel: it has the points at which it acts, and no others.
 *
 * @example
 * @Injectable()
 * @ToolLoopPlugin({ name: 'acme.log' })
 * class CallLog implements Plugin {
 *   concluded({ request, run }: OpenedCall, { record }: CallOutcome): void {
 *     log({ tenant: run.tenant, call: request.call.toolCallId, status: record.status });
 *   }
 * }
 */
export interface Plugin extends RunPoints, CallPoints {}

/** The name of a point. */
export type PointName = keyof Plugin;

/** The names of all points, in the order in which a run with one call comes to them. */
export const POINTS: readonly string[] = Object.keys({
  open: true,
  aroundRun: true,
  traceContext: true,
  stepping: true,
  aroundModel: true,
  answered: true,
  admit: true,
  aroundCall: true,
  judge: true,
  record: true,
  beforeEffect: true,
  started: true,
  result: true,
  concluded: true,
  stepped: true,
} satisfies Record<PointName, true>);
