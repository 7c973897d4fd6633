import type { RemovalCause } from '../contracts/injection.js';

/**
 * Describes a cause for the model, with how to get the tool back, in one or two sentences. The id
 * of an instance may come from outside, so it is in none of them.
 */
export function wayBack(cause: RemovalCause): string {
  switch (cause.kind) {
    case 'role':
      return roleWords(cause);
    case 'evicted':
      return `Newer ones took its place. To get it back, call ${giverIn(cause)} again.`;
    case 'process_ended':
      return `It ended with the process or the turn that held it. To get it back, call ${cause.givenBy} again.`;
    case 'surface':
      return 'It was removed with the tool over which it was called.';
    case 'phase':
      return phaseWords(cause);
    case 'search':
      return `It made room for newer ones. To get it back, search with ${cause.searchId}.`;
    case 'withheld':
      return withheldWords(cause);
    case 'source':
      return 'Its source does not offer it any more, or has changed it. If it comes back, it is among your tools again.';
    case 'removed':
      return removedWords(cause);
  }
}

function removedWords({
  howToGetBack,
  strategy,
}: Extract<RemovalCause, { readonly kind: 'removed' }>): string {
  return (
    howToGetBack ??
    `It was removed by ${strategy}. To get it back, call the tool that gave it again.`
  );
}

/**
 * Describes a removal with a role. An instance may have ended with its process by the time the
 * actor has the role again.
 */
function roleWords(cause: Extract<RemovalCause, { readonly kind: 'role' }>): string {
  const back = cause.perInstance
    ? `it comes back; if it does not, call ${giverIn(cause)} again`
    : 'it can come back';
  return `The actor of the run may not use it at present. Once they may, ${back}.`;
}

function giverIn({ givenBy = 'the tool that returned it' }: { readonly givenBy?: string }): string {
  return givenBy;
}

function withheldWords({ after }: Extract<RemovalCause, { readonly kind: 'withheld' }>): string {
  return `It was taken away${after === undefined ? '' : ` after ${after}`}. Continue without it.`;
}

function phaseWords({
  phase,
  leadingBack,
}: Extract<RemovalCause, { readonly kind: 'phase' }>): string {
  const belongs = `It belongs to the phase "${phase}", which is over.`;
  return leadingBack.length === 0
    ? belongs
    : `${belongs} ${leadingBack.join(' or ')} leads back to it.`;
}
