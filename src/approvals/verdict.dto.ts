import { IsIn, IsOptional, IsString, MaxLength } from 'class-validator';

/** A person's yes or no to a call. */
export class Verdict {
  @IsIn(['approve', 'deny'], { message: 'decision must be "approve" or "deny"' })
  decision!: 'approve' | 'deny';

  /** The model reads it. */
  @IsOptional()
  @IsString({ message: 'reason must be a text' })
  @MaxLength(1000, { message: 'reason must have at most 1000 characters' })
  reason?: string;
}
