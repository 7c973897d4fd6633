import { doWithin } from './around.js';
import { askHook, tellHook } from './ask-hook.js';
import { checkedFinish, checkedLimits } from './checked-answer.js';
import { type InstalledPlugin, type PluginAt, pluginsAt } from './installed-plugin.js';
import type {
  AnsweredQuestion,
  CallLimit,
  EndedStep,
  ModelQuestion,
  PaidAnswer,
  PlannedCall,
  PluginFinish,
  RunEnd,
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
  readonly stepping: ((run: RunView) => Promise<PluginFinish | undefined>) | undefined;
  /** Never rejects. */
  readonly answered: ((answer: PaidAnswer, run: RunView) => Promise<void>) | undefined;
  /**
   * Returns the calls that are not to be made, each as the first plugin refuses it.
   *
   * @throws {Error} the first failure of a hook; the others are not asked then
   */
  readonly admit:
    ((calls: readonly PlannedCall[], run: RunView) => Promise<readonly CallLimit[]>) | undefined;
  /** @throws {Error} the first failure of a hook */
  readonly stepped:
    ((step: EndedStep, run: RunView) => Promise<PluginFinish | undefined>) | undefined;
}

/** Compiles the hooks of the plugins that take part in a run, in their order. */
export function compileRunHooks(plugins: readonly InstalledPlugin[]): RunHooks {
  return {
    aroundRun: compileAroundRun(pluginsAt('aroundRun', plugins)),
    aroundModel: compileAroundModel(pluginsAt('aroundModel', plugins)),
    stepping: compileStepping(pluginsAt('stepping', plugins)),
    answered: compileAnswered(pluginsAt('answered', plugins)),
    admit: compileAdmit(pluginsAt('admit', plugins)),
    stepped: compileStepped(pluginsAt('stepped', plugins)),
  };
}

function compileAroundRun(plugins: readonly PluginAt<'aroundRun'>[]): RunHooks['aroundRun'] {
  if (plugins.length === 0) return undefined;
  return (run, work) =>
    doWithin(
      plugins,
      { point: 'aroundRun', run, call: (plugin, next) => plugin.aroundRun(run, next) },
      work,
    );
}

function compileAroundModel(plugins: readonly PluginAt<'aroundModel'>[]): RunHooks['aroundModel'] {
  if (plugins.length === 0) return undefined;
  return (question, run, work) =>
    doWithin(
      plugins,
      {
        point: 'aroundModel',
        run,
        call: (plugin, next) => plugin.aroundModel(question, next, run),
      },
      work,
    );
}

function compileStepping(plugins: readonly PluginAt<'stepping'>[]): RunHooks['stepping'] {
  if (plugins.length === 0) return undefined;
  return async (run) => {
    for (const one of plugins) {
      const finish = await askHook(one, 'stepping', run, (plugin) => plugin.stepping(run));
      if (finish) return checkedFinish(finish, one, 'stepping');
    }
    return undefined;
  };
}

function compileAnswered(plugins: readonly PluginAt<'answered'>[]): RunHooks['answered'] {
  if (plugins.length === 0) return undefined;
  return async (answer, run) => {
    for (const one of plugins)
      await tellHook(one, 'answered', run, (plugin) => plugin.answered(answer, run));
  };
}

function compileAdmit(plugins: readonly PluginAt<'admit'>[]): RunHooks['admit'] {
  if (plugins.length === 0) return undefined;
  return async (calls, run) => {
    const refused: CallLimit[] = [];
    for (const one of plugins) {
      const left = calls.filter(({ index }) => !refused.some((limit) => limit.index === index));
      const limits = await askHook(one, 'admit', run, (plugin) => plugin.admit(left, run));
      refused.push(...checkedLimits(limits, left, one));
    }
    return refused;
  };
}

function compileStepped(plugins: readonly PluginAt<'stepped'>[]): RunHooks['stepped'] {
  if (plugins.length === 0) return undefined;
  return async (step, run) => {
    let finish: PluginFinish | undefined;
    for (const one of plugins) {
      const end = await askHook(one, 'stepped', run, (plugin) => plugin.stepped(step, run));
      if (end) finish ??= checkedFinish(end, one, 'stepped');
    }
    return finish;
  };
}
