import type { DirectiveReference, DirectiveStore } from '../../contracts/directive.js';
import { Logger } from '../../findings/logger.js';
import type { DataPolicyEngine } from '../../policy/policy-engine.js';

/**
 * The directives of which an operator has stopped the tool. They stay due, with all their attempts.
 */
export class HeldDirectives {
  private readonly logger = new Logger(HeldDirectives.name);
  private readonly held = new Map<string, DirectiveReference>();

  constructor(
    private readonly store: DirectiveStore,
    private readonly inForce: Pick<DataPolicyEngine, 'stopsIn' | 'isHeld' | 'released$'>,
  ) {}

  /** Takes a directive that must not be performed now, and returns whether it is one. */
  async takes(reference: DirectiveReference): Promise<boolean> {
    const { tenant, directiveId } = reference;
    if (this.inForce.stopsIn({ tenant }).length === 0) return false;
    const record = await this.store.find(reference);
    if (!record || !this.inForce.isHeld(tenant, record.intent.call.declaredId)) return false;
    this.held.set(JSON.stringify([tenant, directiveId]), reference);
    return true;
  }

  /**
   * Has those that were taken performed once something was released: they were handed out already.
   * Returns what ends that.
   */
  follow(perform: (reference: DirectiveReference) => Promise<void>): () => Promise<void> {
    let performing = Promise.resolve();
    let hasEnded = false;
    const performAll = async (): Promise<void> => {
      const released = [...this.held.values()];
      this.held.clear();
      for (const reference of released)
        if (!hasEnded)
          await perform(reference).catch((error: unknown) =>
            this.logger.error(
              `The directive ${reference.directiveId} was held, and could not be processed.`,
              error,
            ),
          );
    };
    const following = this.inForce.released$.subscribe(() => {
      performing = performing.then(performAll);
    });
    return async () => {
      hasEnded = true;
      following.unsubscribe();
      await performing;
    };
  }
}
