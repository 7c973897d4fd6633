import { isGiven } from '@toolloop/core/internal';
import { ValidateIf } from 'class-validator';

/**
 * Marks a field that a body may leave out. It differs from `@IsOptional()` in null, which is
 * refused like every other value of a wrong type, with the message of the field's own rules: a
 * route that reads the field expects a value or none.
 *
 * @example
 * class StopRun {
 *   @MayBeAbsent() @IsString({ message: 'reason must be a text' }) reason?: string;
 * }
 */
export function MayBeAbsent(): PropertyDecorator {
  return ValidateIf(isGiven);
}
