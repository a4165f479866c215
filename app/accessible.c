/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/accessible.h"

void
plumb_accessible_set_label (GtkWidget *widget, const char *label)
{
  g_return_if_fail (GTK_IS_WIDGET (widget) && label != NULL);

  gtk_accessible_update_property (GTK_ACCESSIBLE (widget), GTK_ACCESSIBLE_PROPERTY_LABEL, label,
                                  -1);
}

/* Both kinds of stacks have their pages for children, and tell of all of them. */
static void
visible_child_cb (GtkWidget *stack)
{
  GtkWidget *visible = NULL;

  g_object_get (stack, "visible-child", &visible, NULL);
  for (GtkWidget *page = gtk_widget_get_first_child (stack); page != NULL;
       page = gtk_widget_get_next_sibling (page))
    gtk_accessible_update_state (GTK_ACCESSIBLE (page), GTK_ACCESSIBLE_STATE_HIDDEN,
                                 page != visible, -1);
  g_clear_object (&visible);
}

void
plumb_accessible_follow_pages (GtkWidget *stack)
{
  g_return_if_fail (GTK_IS_WIDGET (stack));

  g_signal_connect (stack, "notify::visible-child", G_CALLBACK (visible_child_cb), NULL);
  visible_child_cb (stack);
}

void
plumb_accessible_filter (GtkListBox *list)
{
  GtkListBoxRow *row;

  g_return_if_fail (GTK_IS_LIST_BOX (list));

  gtk_list_box_invalidate_filter (list);
  for (int i = 0; (row = gtk_list_box_get_row_at_index (list, i)) != NULL; i++)
    gtk_accessible_update_state (GTK_ACCESSIBLE (row), GTK_ACCESSIBLE_STATE_HIDDEN,
                                 !gtk_widget_get_child_visible (GTK_WIDGET (row)), -1);
}
