import type { ToolFailure } from '@toolloop/protocol';
import { deepFreeze } from '../contracts/deep-freeze.js';
import { doWithin } from './around.js';
import type {
  CallOutcome,
  CallRuling,
  CheckedCall,
  FailureWords,
  OpenedCall,
  RecordEntry,
  ResultChange,
  StartedCall,
} from './call-points.js';
import { askHook, reportLate, tellHook } from './ask-hook.js';
import { checkedChange, checkedRefusal } from './checked-answer.js';
import { type InstalledPlugin, type PluginAt, pluginsAt, reportHook } from './installed-plugin.js';
import type { RunView } from './run-view.js';

/** The hooks of a call, compiled: each is one function, and absent if no plugin has the point. */
export interface CallHooks {
  readonly aroundCall:
    | (<Outcome extends CallOutcome>(
        call: OpenedCall,
        work: () => Promise<Outcome>,
      ) => Promise<Outcome>)
    | undefined;
  /** Never throws: a plugin that fails denies the call. */
  readonly judge: ((call: CheckedCall) => readonly RulingOf[]) | undefined;
  /** @throws {Error} the first failure of a hook; the others are not asked then */
  readonly record:
    ((entry: RecordEntry, run: RunView, call?: CheckedCall) => Promise<void>) | undefined;
  /**
   * Returns the first refusal.
   *
   * @throws {Error} the first failure of a hook; the others are not asked then
   */
  readonly beforeEffect: ((call: CheckedCall) => Promise<ToolFailure | undefined>) | undefined;
  /** Never throws. */
  readonly started: ((call: StartedCall) => void) | undefined;
  /**
   * Returns all that the plugins change together.
   *
   * @throws {Error} the first failure of a hook; the others are not asked then
   */
  readonly result:
    ((call: OpenedCall, outcome: CallOutcome) => Promise<ResultChange | undefined>) | undefined;
  /** Never rejects. */
  readonly concluded: ((call: OpenedCall, outcome: CallOutcome) => Promise<void>) | undefined;
}

/** A ruling, and the name of the plugin that gave it. */
export interface RulingOf {
  readonly name: string;
  readonly ruling: CallRuling;
}

/** Compiles the hooks of the plugins that a call concerns, in their order. */
export function compileCallHooks(plugins: readonly InstalledPlugin[]): CallHooks {
  return {
    aroundCall: compileAroundCall(pluginsAt('aroundCall', plugins)),
    judge: compileJudge(pluginsAt('judge', plugins)),
    record: compileRecord(pluginsAt('record', plugins)),
    beforeEffect: compileBeforeEffect(pluginsAt('beforeEffect', plugins)),
    started: compileStarted(pluginsAt('started', plugins)),
    result: compileResult(pluginsAt('result', plugins)),
    concluded: compileConcluded(pluginsAt('concluded', plugins)),
  };
}

function compileAroundCall(plugins: readonly PluginAt<'aroundCall'>[]): CallHooks['aroundCall'] {
  if (plugins.length === 0) return undefined;
  return (call, work) =>
    doWithin(
      plugins,
      {
        point: 'aroundCall',
        run: call.run,
        call: (plugin, next) => plugin.aroundCall(call, next),
      },
      work,
    );
}

function compileJudge(plugins: readonly PluginAt<'judge'>[]): CallHooks['judge'] {
  if (plugins.length === 0) return undefined;
  return (call) =>
    plugins.flatMap((one) => {
      const { name } = one.declaration;
      try {
        const ruling = one.plugin.judge(call);
        reportLate(ruling, (error) => reportHook(one, 'judge', error, call.run));
        return ruling ? [{ name, ruling }] : [];
      } catch (error) {
        reportHook(one, 'judge', error, call.run);
        return [{ name, ruling: FAILED }];
      }
    });
}

const FAILED: CallRuling = { kind: 'deny', reason: 'The plugin failed.' };

function compileBeforeEffect(
  plugins: readonly PluginAt<'beforeEffect'>[],
): CallHooks['beforeEffect'] {
  if (plugins.length === 0) return undefined;
  return async (call) => {
    for (const one of plugins) {
      const refusal = await askHook(one, 'beforeEffect', call.run, (plugin) =>
        plugin.beforeEffect(call),
      );
      if (refusal) return checkedRefusal(refusal, one, 'beforeEffect');
    }
    return undefined;
  };
}

function compileResult(plugins: readonly PluginAt<'result'>[]): CallHooks['result'] {
  if (plugins.length === 0) return undefined;
  return async (call, outcome) => {
    let changed: ResultChange | undefined;
    for (const one of plugins) {
      const read = asRead(outcome, changed);
      const change = await askHook(one, 'result', call.run, (plugin) => plugin.result(call, read));
      if (change !== undefined) changed = joined(changed, checkedChange(change, read, one));
    }
    return changed;
  };
}

function joined(first: ResultChange | undefined, next: ResultChange): ResultChange {
  return { ...first, ...next };
}

/** A copy of an outcome as the next plugin reads it: what it writes into that would be lost. */
function asRead(outcome: CallOutcome, change: ResultChange | undefined): CallOutcome {
  const { content = outcome.content, result = outcome.record.result, error } = change ?? {};
  const { error: failure } = outcome.record;
  const copy = structuredClone({
    content,
    record: {
      ...outcome.record,
      ...(result !== undefined && { result }),
      ...(failure && error && { error: reworded(failure, error) }),
    },
  });
  deepFreeze(copy);
  return copy;
}

/** Returns a failure in other words. */
export function reworded(
  { problems: _problems, ...failure }: ToolFailure,
  words: FailureWords,
): ToolFailure {
  return { ...failure, ...words };
}

function compileRecord(plugins: readonly PluginAt<'record'>[]): CallHooks['record'] {
  if (plugins.length === 0) return undefined;
  return async (entry, run, call) => {
    for (const one of plugins)
      await askHook(one, 'record', run, (plugin) => plugin.record(entry, run, call));
  };
}

function compileStarted(plugins: readonly PluginAt<'started'>[]): CallHooks['started'] {
  if (plugins.length === 0) return undefined;
  return (call) => {
    for (const one of plugins)
      void tellHook(one, 'started', call.run, (plugin) => plugin.started(call));
  };
}

function compileConcluded(plugins: readonly PluginAt<'concluded'>[]): CallHooks['concluded'] {
  if (plugins.length === 0) return undefined;
  return async (call, outcome) => {
    for (const one of plugins)
      await tellHook(one, 'concluded', call.run, (plugin) => plugin.concluded(call, outcome));
  };
}
