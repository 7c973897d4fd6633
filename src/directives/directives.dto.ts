import { DIRECTIVE_STATUSES, type DirectiveStatus } from '@toolloop/core/directives';
import { IsBoolean, IsIn, IsOptional, IsString, MaxLength, ValidateIf } from 'class-validator';

/** A selection of directives. */
export class DirectiveListing {
  @IsOptional() @IsIn(DIRECTIVE_STATUSES, { message: `status must be one of ${DIRECTIVE_STATUSES.join(', ')}` }) status?: DirectiveStatus;
  @IsOptional() @IsString() @MaxLength(256) subject?: string;
  /** The id of the last directive of the previous page. */
  @IsOptional() @IsString() @MaxLength(64) after?: string;
}

/** The reason why a directive is no longer wanted. */
export class Cancellation {
  @IsOptional() @IsString({ message: 'reason must be a text' }) @MaxLength(1000) reason?: string;
}

/** The finding of a person who looked whether the effect took place. Null is refused: it is no answer. */
export class Redrive {
  @ValidateIf((_body, said) => said !== undefined) @IsBoolean({ message: 'tookPlace must be true or false' }) tookPlace?: boolean;
}
