import { Injectable } from '@nestjs/common';
import type { Finding } from '@toolloop/protocol';
import type { PluginValue } from '../contracts/plugin-value.js';
import type { Tool } from '../contracts/tool.js';
import type { RecordEntry } from './call-points.js';
import { type CallHooks, compileCallHooks } from './call-hooks.js';
import { withSoundDeclaration } from './declaration-findings.js';
import { type InstalledPlugin, pluginsAt } from './installed-plugin.js';
import { reportLate } from './ask-hook.js';
import { PluginError } from './plugin-error.js';
import { compileRunHooks, type RunHooks } from './run-hooks.js';
import { RunOfPlugins } from './run-of-plugins.js';
import type { RunFacts, RunView } from './run-view.js';
import { KeptSlot, type SavedSlots } from './saved-slot.js';
import type { AnySlot } from './slot.js';
import { orderPlugins } from './plugin-order.js';

/** The plugins of the application, in the order of their hooks. */
@Injectable()
export class Plugins {
  private installed: readonly InstalledPlugin[] = [];
  private slots: readonly AnySlot[] = [];
  /** The compiled hooks of each set of plugins that has been in a run, by their names. */
  private readonly compiled = new Map<string, PluginSet>();

  /** Installs the plugins of the application, in place of those that were there. */
  install(plugins: readonly InstalledPlugin[]): void {
    const order = orderPlugins(plugins.map(withSoundDeclaration));
    if ('circle' in order) return; // a finding, with which the application does not start
    this.installed = order.ordered;
    this.slots = order.ordered.flatMap(({ declaration: { slots = [] } }) => slots);
    this.compiled.clear();
  }

  /** The names of the plugins, in their order. */
  get names(): readonly string[] {
    return this.installed.map(({ declaration }) => declaration.name);
  }

  /** Returns why a saved run cannot be resumed with these plugins; undefined if it can. */
  problemWith(saved: SavedSlots): string | undefined {
    for (const slot of this.slots) {
      const value = saved[slot.name];
      const problem = value && slot instanceof KeptSlot ? slot.problemWith(value) : undefined;
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  /** Returns what is wrong with the values that a request or a loop gives plugins. */
  findingsIn(values: readonly PluginValue[], at: string): readonly Finding[] {
    return values.flatMap((value) => {
      const problem = this.problemWithValue(value);
      return problem === undefined ? [] : [{ at, problem, remedy: OF_SLOTS }];
    });
  }

  private problemWithValue({ slot: name, value }: PluginValue): string | undefined {
    const slot = this.slots.find((one) => one.name === name);
    if (!slot) return `No plugin has the slot "${name}".`;
    if (!(slot instanceof KeptSlot)) return `The slot "${name}" is not saved, so it takes none.`;
    const problem = slot.problemWithGiven(value);
    return problem === undefined ? undefined : `The value is wrong: ${problem}.`;
  }

  /** Returns the present trace context, by the first plugin that knows one. */
  traceContext(): string | undefined {
    const [tracing] = pluginsAt('traceContext', this.installed);
    return tracing?.plugin.traceContext();
  }

  /**
   * Begins a run with the plugins that take part in it.
   *
   * @throws {PluginError} if one does not say whether it does
   */
  begin(
    facts: RunFacts,
    { around, session }: RunsAround = {},
    saved: SavedSlots = {},
  ): PluginsOfRun {
    const view = new RunOfPlugins(facts, this.slots, around?.view, session?.view);
    view.restore(saved);
    view.begin(facts.options.values ?? []);
    const active = this.installed.filter((one) => takesPart(one, view));
    const key = active.map(({ declaration }) => declaration.name).join('\n');
    const set = this.compiled.get(key) ?? new PluginSet(active);
    this.compiled.set(key, set);
    return new PluginsOfRun(view, set);
  }
}

const OF_SLOTS = 'Give values of the slots of plugins that the application provides.';

/** @throws {PluginError} if the plugin does not say */
function takesPart({ declaration, plugin }: InstalledPlugin, run: RunView): boolean {
  try {
    const isOpen: unknown = plugin.open?.(run) ?? true;
    reportLate(isOpen, () => undefined);
    if (typeof isOpen !== 'boolean') throw new TypeError('It answers with true or false, at once.');
    return isOpen;
  } catch (cause) {
    throw new PluginError(declaration.name, 'open', { cause });
  }
}

/** The runs with which a run shares values of its plugins. */
export interface RunsAround {
  /** The run around a sub-run. */
  readonly around?: PluginsOfRun | undefined;
  /** The session of a call. */
  readonly session?: PluginsOfRun | undefined;
}

/** The plugins that take part in one run. */
export class PluginsOfRun {
  constructor(
    readonly view: RunOfPlugins,
    private readonly set: PluginSet,
  ) {}

  /** Returns the values that are saved with the run; undefined if there are none. */
  save(): SavedSlots | undefined {
    const saved = this.view.save();
    return Object.keys(saved).length > 0 ? saved : undefined;
  }

  get hooks(): RunHooks {
    return this.set.ofRun;
  }

  /**
   * Puts something about the run itself on record.
   *
   * @throws {PluginError} if a plugin could not
   */
  async note(entry: RecordEntry): Promise<void> {
    await this.hooksFor(undefined).record?.(entry, this.view);
  }

  /** Returns the hooks of a call. One of no tool concerns the plugins that every tool concerns. */
  hooksFor(tool: Tool | undefined): CallHooks {
    return this.set.hooksFor(tool);
  }
}

/** Plugins that are in a run together, with their compiled hooks. */
class PluginSet {
  readonly ofRun: RunHooks;
  private readonly ofEveryTool: CallHooks;
  private readonly ofTools = new WeakMap<object, CallHooks>();
  private readonly isSelective: boolean;

  constructor(private readonly plugins: readonly InstalledPlugin[]) {
    this.ofRun = compileRunHooks(plugins);
    const unselective = plugins.filter(({ declaration }) => !declaration.concerns);
    this.isSelective = unselective.length < plugins.length;
    this.ofEveryTool = compileCallHooks(unselective);
  }

  hooksFor(tool: Tool | undefined): CallHooks {
    if (!tool || !this.isSelective) return this.ofEveryTool;
    const known = this.ofTools.get(tool.spec);
    if (known) return known;
    const hooks = compileCallHooks(
      this.plugins.filter(({ declaration: { concerns } }) => concerns?.(tool) ?? true),
    );
    this.ofTools.set(tool.spec, hooks);
    return hooks;
  }
}
