import { ToolField } from '@toolloop/core';
import { IsOptional, IsString, Matches, MaxLength } from 'class-validator';

export class SendReceipt {
  @ToolField({ description: 'Such as o-1024.' }) @Matches(/^o-\d{1,9}$/) orderId!: string;

  @ToolField({ description: 'A sentence for the customer, above the receipt.' })
  @IsOptional()
  @IsString()
  @MaxLength(500)
  note?: string;
}
