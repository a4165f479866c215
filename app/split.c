/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "app/split.h"

struct _PlumbSplit
{
  GtkWidget parent_instance;

  AdwLeaflet *leaflet;
  GtkWidget *sidebar;
  GtkWidget *separator;
  GtkWidget *content;
};

enum
{
  PROP_0,
  PROP_SIDEBAR,
  PROP_CONTENT,
  PROP_FOLDED,
  N_PROPS,
};
static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (PlumbSplit, plumb_split, GTK_TYPE_WIDGET)

/* Of a folded window only the part that shows is told of. */
static void
tell_parts (PlumbSplit *self)
{
  GtkWidget *visible = adw_leaflet_get_visible_child (self->leaflet);
  GtkWidget *parts[] = { self->sidebar, self->content };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (parts[i] != NULL)
      gtk_accessible_update_state (GTK_ACCESSIBLE (parts[i]), GTK_ACCESSIBLE_STATE_HIDDEN,
                                   adw_leaflet_get_folded (self->leaflet) && parts[i] != visible,
                                   -1);
}

static void
folded_cb (PlumbSplit *self)
{
  if (adw_leaflet_get_folded (self->leaflet) && self->sidebar != NULL)
    gtk_widget_show (self->sidebar);
  tell_parts (self);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_FOLDED]);
}

static void
set_sidebar (PlumbSplit *self, GtkWidget *sidebar)
{
  self->sidebar = sidebar;
  self->separator = gtk_separator_new (GTK_ORIENTATION_VERTICAL);
  adw_leaflet_prepend (self->leaflet, self->separator);
  adw_leaflet_prepend (self->leaflet, sidebar);
  adw_leaflet_page_set_navigatable (adw_leaflet_get_page (self->leaflet, self->separator), FALSE);
}

static void
set_content (PlumbSplit *self, GtkWidget *content)
{
  self->content = content;
  adw_leaflet_append (self->leaflet, content);
}

static void
plumb_split_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  PlumbSplit *self = PLUMB_SPLIT (object);

  switch (id)
    {
    case PROP_SIDEBAR:
      set_sidebar (self, g_value_get_object (value));
      break;
    case PROP_CONTENT:
      set_content (self, g_value_get_object (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_split_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  PlumbSplit *self = PLUMB_SPLIT (object);

  switch (id)
    {
    case PROP_SIDEBAR:
      g_value_set_object (value, self->sidebar);
      break;
    case PROP_CONTENT:
      g_value_set_object (value, self->content);
      break;
    case PROP_FOLDED:
      g_value_set_boolean (value, plumb_split_get_folded (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_split_dispose (GObject *object)
{
  PlumbSplit *self = PLUMB_SPLIT (object);

  self->sidebar = self->content = NULL;
  if (self->leaflet != NULL)
    gtk_widget_unparent (GTK_WIDGET (self->leaflet));
  self->leaflet = NULL;
  G_OBJECT_CLASS (plumb_split_parent_class)->dispose (object);
}

static void
plumb_split_class_init (PlumbSplitClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  object_class->set_property = plumb_split_set_property;
  object_class->get_property = plumb_split_get_property;
  object_class->dispose = plumb_split_dispose;
  properties[PROP_SIDEBAR]
      = g_param_spec_object ("sidebar", NULL, NULL, GTK_TYPE_WIDGET, G_PARAM_READWRITE | flags);
  properties[PROP_CONTENT]
      = g_param_spec_object ("content", NULL, NULL, GTK_TYPE_WIDGET, G_PARAM_READWRITE | flags);
  properties[PROP_FOLDED]
      = g_param_spec_boolean ("folded", NULL, NULL, FALSE, G_PARAM_READABLE | flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
  gtk_widget_class_set_layout_manager_type (GTK_WIDGET_CLASS (klass), GTK_TYPE_BIN_LAYOUT);
}

static void
plumb_split_init (PlumbSplit *self)
{
  self->leaflet = ADW_LEAFLET (adw_leaflet_new ());
  adw_leaflet_set_can_navigate_back (self->leaflet, TRUE);
  adw_leaflet_set_can_unfold (self->leaflet, TRUE);
  gtk_widget_set_parent (GTK_WIDGET (self->leaflet), GTK_WIDGET (self));
  g_signal_connect_object (self->leaflet, "notify::folded", G_CALLBACK (folded_cb), self,
                           G_CONNECT_SWAPPED);
  g_signal_connect_object (self->leaflet, "notify::visible-child", G_CALLBACK (tell_parts), self,
                           G_CONNECT_SWAPPED);
}

void
plumb_split_set_show_content (PlumbSplit *self, gboolean show_content)
{
  g_return_if_fail (PLUMB_IS_SPLIT (self));

  adw_leaflet_set_visible_child (self->leaflet, show_content ? self->content : self->sidebar);
}

gboolean
plumb_split_get_show_content (PlumbSplit *self)
{
  g_return_val_if_fail (PLUMB_IS_SPLIT (self), FALSE);

  return adw_leaflet_get_visible_child (self->leaflet) == self->content;
}

gboolean
plumb_split_get_folded (PlumbSplit *self)
{
  g_return_val_if_fail (PLUMB_IS_SPLIT (self), FALSE);

  return self->leaflet != NULL && adw_leaflet_get_folded (self->leaflet);
}

void
plumb_split_toggle_sidebar (PlumbSplit *self)
{
  g_return_if_fail (PLUMB_IS_SPLIT (self));

  if (plumb_split_get_folded (self))
    {
      plumb_split_set_show_content (self, !plumb_split_get_show_content (self));
      return;
    }
  plumb_split_set_show_content (self, TRUE);
  gtk_widget_set_visible (self->sidebar, !gtk_widget_get_visible (self->sidebar));
  gtk_widget_set_visible (self->separator, gtk_widget_get_visible (self->sidebar));
}
