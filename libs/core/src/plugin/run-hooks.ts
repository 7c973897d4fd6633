import { doWithin } from './around.js';
import { waitForHook } from './hook-time.js';
import {
  failureOfHook,
  type InstalledPlugin,
  type PluginAt,
  pluginsAt,
  reportHook,
} from './installed-plugin.js';
import {
  type AnsweredQuestion,
  type EndedStep,
  type ModelQuestion,
  PLUGIN_REASONS,
  type PluginFinish,
  type RunEnd,
} from './run-points.js';
import type { RunView } from './run-view.js';

/** The hooks of a run, compiled: each is one function, and absent if no plugin has the point. */
export interface RunHooks {
  readonly aroundRun:
    (<End extends RunEnd>(run: RunView, work: () => Promise<End>) => Promise<End>) | undefined;
  readonly aroundModel:
    | (<Answered extends AnsweredQuestion>(
        question: ModelQuestion,
        run: RunView,
        work: () => Promise<Answered>,
      ) => Promise<Answered>)
    | undefined;
  /** @throws {Error} the first failure of a hook */
  readonly stepped:
    ((step: EndedStep, run: RunView) => Promise<PluginFinish | undefined>) | undefined;
}

/** Compiles the hooks of the plugins that take part in a run, in their order. */
export function compileRunHooks(plugins: readonly InstalledPlugin[]): RunHooks {
  return {
    aroundRun: compileAroundRun(pluginsAt('aroundRun', plugins)),
    aroundModel: compileAroundModel(pluginsAt('aroundModel', plugins)),
    stepped: compileStepped(pluginsAt('stepped', plugins)),
  };
}

function compileAroundRun(plugins: readonly PluginAt<'aroundRun'>[]): RunHooks['aroundRun'] {
  if (plugins.length === 0) return undefined;
  return (run, work) =>
    doWithin(
      plugins.map((one) => ({
        declaration: one.declaration,
        call: (next) => one.plugin.aroundRun(run, next),
        report: (error) => reportHook(one, 'aroundRun', error, run),
      })),
      run,
      work,
    );
}

function compileAroundModel(plugins: readonly PluginAt<'aroundModel'>[]): RunHooks['aroundModel'] {
  if (plugins.length === 0) return undefined;
  return (question, run, work) =>
    doWithin(
      plugins.map((one) => ({
        declaration: one.declaration,
        call: (next) => one.plugin.aroundModel(question, next, run),
        report: (error) => reportHook(one, 'aroundModel', error, run),
      })),
      run,
      work,
    );
}

function compileStepped(plugins: readonly PluginAt<'stepped'>[]): RunHooks['stepped'] {
  if (plugins.length === 0) return undefined;
  return async (step, run) => {
    let finish: PluginFinish | undefined;
    for (const one of plugins)
      try {
        const answer = one.plugin.stepped(step, run);
        const end =
          answer instanceof Promise ? await waitForHook(answer, one.declaration, run) : answer;
        if (end !== undefined) finish ??= checkedFinish(end);
      } catch (error) {
        throw failureOfHook(one, 'stepped', error, run);
      }
    return finish;
  };
}

/** @throws {TypeError} for what is no end */
function checkedFinish({ reason, detail }: PluginFinish): PluginFinish {
  if (!PLUGIN_REASONS.includes(reason))
    throw new TypeError(`A plugin can end a run with ${PLUGIN_REASONS.join(', ')}.`);
  return { reason, ...(detail !== undefined && { detail }) };
}
