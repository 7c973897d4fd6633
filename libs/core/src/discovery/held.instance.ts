import type { ToolRehydration } from '../protocol/tool.js';
import type { EntityContext } from '../protocol/entity-resolver.js';
import { instanceIdOf, isForeign, type EntityDefinition } from './entity.registry.js';
import { ForeignEntityError } from './foreign-entity.error.js';

/** The instance behind the tools of one entity in one run: the one that a tool returned, or one that is found when a tool of it is called. */
export class HeldInstance {
  private found: object | undefined;

  constructor(
    private readonly definition: EntityDefinition,
    private readonly instanceId: string,
    /** Absent where the run goes on and nobody has looked for it yet. */
    readonly live?: object,
  ) {}

  /** The same for all that is held of one instance. */
  get key(): string {
    return JSON.stringify([this.definition.prefix, this.instanceId]);
  }

  /** What the tools are called on where nobody looks it up. */
  get instance(): object {
    if (this.live) return this.live;
    throw new TypeError(`A ${this.definition.type.name} was called before it was found.`);
  }

  /** How a call finds the instance; undefined where the one that was returned is called. */
  get lookUp(): ToolRehydration['lookUp'] | undefined {
    const { rehydration } = this.definition;
    if (!rehydration) return undefined;
    if (rehydration.when === 'always') return (context) => this.asked(context);
    return this.live ? undefined : async (context) => (this.found ??= await this.asked(context));
  }

  /** Throws `ForeignEntityError` for an instance that is not the one asked for. */
  private async asked(context: EntityContext): Promise<object | undefined> {
    const { definition, instanceId } = this;
    const found: unknown = await definition.rehydration?.lookup(instanceId, context);
    if (found === undefined || found === null) return undefined;
    const { name } = definition.type;
    if (!(found instanceof definition.type)) throw new ForeignEntityError(name, 'no instance of it');
    if (instanceIdOf(definition, found) !== instanceId) throw new ForeignEntityError(name, 'an instance with another id');
    if (isForeign(definition, found, context.tenant)) throw new ForeignEntityError(name, "another tenant's instance");
    return found;
  }
}
