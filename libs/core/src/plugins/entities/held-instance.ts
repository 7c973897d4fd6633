import type { EntityContext } from '../../contracts/entity.js';
import type { ToolRehydration } from '../../contracts/tool.js';
import { type EntityDefinition, ForeignEntityError, isForeign } from './entity-registry.js';
import { instanceIdOf } from './instance-id.js';

/**
 * The instance behind the tools of one entity in one run: the one that a tool returned, or one that
 * is found when a tool of it is called.
 */
export class HeldInstance {
  private found: object | undefined;

  constructor(
    private readonly definition: EntityDefinition,
    private readonly instanceId: string,
    /** Absent in a resumed run until it was looked up. */
    readonly live?: object,
  ) {}

  /** The same for all that is held of one instance. */
  get key(): string {
    return JSON.stringify([this.definition.prefix, this.instanceId]);
  }

  /** Returns the instance on which tools are called without a look-up. */
  get instance(): object {
    if (this.live) return this.live;
    throw new TypeError(`A ${this.definition.type.name} was called before it was found.`);
  }

  /** Returns the look-up before a call; undefined if the returned instance itself is called. */
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
    if (!(found instanceof definition.type))
      throw new ForeignEntityError(name, 'no instance of it');
    if (instanceIdOf(definition, found) !== instanceId)
      throw new ForeignEntityError(name, 'an instance with another id');
    if (isForeign(definition, found, context.tenant))
      throw new ForeignEntityError(name, "another tenant's instance");
    return found;
  }
}
