import { doWithin } from './around.js';
import type {
  CallOutcome,
  CheckedCall,
  OpenedCall,
  RecordEntry,
  StartedCall,
} from './call-points.js';
import { askHook, tellHook } from './ask-hook.js';
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
  /** @throws {Error} the first failure of a hook; the others are not asked then */
  readonly record:
    ((entry: RecordEntry, run: RunView, call?: CheckedCall) => Promise<void>) | undefined;
  /** Never throws. */
  readonly started: ((call: StartedCall) => void) | undefined;
  /** Never rejects. */
  readonly concluded: ((call: OpenedCall, outcome: CallOutcome) => Promise<void>) | undefined;
}

/** Compiles the hooks of the plugins that a call concerns, in their order. */
export function compileCallHooks(plugins: readonly InstalledPlugin[]): CallHooks {
  return {
    aroundCall: compileAroundCall(pluginsAt('aroundCall', plugins)),
    record: compileRecord(pluginsAt('record', plugins)),
    started: compileStarted(pluginsAt('started', plugins)),
    concluded: compileConcluded(pluginsAt('concluded', plugins)),
  };
}

function compileAroundCall(plugins: readonly PluginAt<'aroundCall'>[]): CallHooks['aroundCall'] {
  if (plugins.length === 0) return undefined;
  return (call, work) =>
    doWithin(
      plugins.map((one) => ({
        declaration: one.declaration,
        call: (next) => one.plugin.aroundCall(call, next),
        report: (error) => reportHook(one, 'aroundCall', error, call.run),
      })),
      call.run,
      work,
    );
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
      try {
        one.plugin.started(call);
      } catch (error) {
        reportHook(one, 'started', error, call.run);
      }
  };
}

function compileConcluded(plugins: readonly PluginAt<'concluded'>[]): CallHooks['concluded'] {
  if (plugins.length === 0) return undefined;
  return async (call, outcome) => {
    for (const one of plugins)
      await tellHook(one, 'concluded', call.run, (plugin) => plugin.concluded(call, outcome));
  };
}
