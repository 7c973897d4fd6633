import { Injectable } from '@nestjs/common';
import type { Quota } from '../../contracts/quota.js';
import type { Plugin } from '../../plugin/plugin.js';
import type {
  Awaitable,
  CallLimit,
  PaidAnswer,
  PlannedCall,
  PluginFinish,
} from '../../plugin/run-points.js';
import type { RunView } from '../../plugin/run-view.js';
import { memory } from '../../plugin/slot.js';
import { ToolLoopPlugin } from '../../plugin/tool-loop-plugin.decorator.js';
import { detailOf } from './quota-guard.js';
import { type CallGrant, type MeteredCall, RunMeter } from './run-meter.js';
import { UsageLedger } from './usage-ledger.js';

/** The calls of a session have one, which knows if the store has failed. */
const METER = memory<RunMeter | undefined>({
  name: 'usage/meter',
  inherit: 'session',
  make: () => undefined,
});

/**
 * Counts what runs use, and holds it against the quotas of their tenants. A call that another
 * plugin refuses is not counted. The stores bound their own time.
 */
@Injectable()
@ToolLoopPlugin({ name: 'usage', after: ['repetition'], slots: [METER], isBounded: true })
export class UsageMeter implements Plugin {
  constructor(private readonly ledger: UsageLedger) {}

  stepping(run: RunView): Awaitable<PluginFinish | undefined> {
    const spent = this.meterOf(run).spent(run.signal);
    return spent?.then((quota) => quota && { reason: 'budget', detail: detailOf(quota) });
  }

  admit(calls: readonly PlannedCall[], run: RunView): Awaitable<readonly CallLimit[]> {
    const counted = calls.filter(({ tool, isMade }) => tool && !tool.surface && !isMade);
    if (counted.length === 0) return [];
    const metered = counted.map((planned) => meteredCall(planned, run));
    const taken = this.meterOf(run).takeCalls(metered, run.signal);
    return (
      taken?.then((grant) =>
        counted.slice(grant.calls).map(({ index }) => limitOf(index, grant)),
      ) ?? []
    );
  }

  answered({ usage, model }: PaidAnswer, run: RunView): Awaitable<void> {
    return this.meterOf(run).answered(usage, model, run.signal);
  }

  private meterOf(run: RunView): RunMeter {
    const known = run.get(METER);
    if (known) return known;
    const meter = this.meterFor(run);
    run.set(METER, () => meter);
    return meter;
  }

  private meterFor({ around, facts, runId, tenant }: RunView): RunMeter {
    const { within, actorId, options } = facts;
    return around && within
      ? this.meterOf(around).ofSubRun(within.tool)
      : new RunMeter(this.ledger, { runId, tenant, actorId }, options.quotas);
  }
}

function limitOf(index: number, { beyond }: CallGrant): CallLimit {
  return { index, ...beyond };
}

/** A call of a durable run has an id: a process that takes the run over may count it again. */
function meteredCall({ call, tool }: PlannedCall, { runId, facts }: RunView): MeteredCall {
  const { model, journal } = facts;
  return {
    tool: tool?.spec.declaredId ?? call.name,
    ...(model !== undefined && { model }),
    ...(journal?.() && { id: `${runId}/${call.toolCallId}` }),
  };
}

declare module '../../plugin/run-view.js' {
  interface PluginRunOptions {
    /** The quotas of the tenant. */
    readonly quotas: readonly Quota[];
  }
}
