import { CallFailure } from './call-failure.js';

/** The failure of a call that was begun before and whose outcome is not stored. */
export function unknownOutcome(why?: string): CallFailure {
  const told =
    'This call was begun before and it is unknown whether its effect took place. Do not repeat it; check first.';
  return CallFailure.of('unknown_outcome', why === undefined ? told : `${told} ${why}`);
}
